"""Level C3 without Lightning: ranks that call the communication library."""
