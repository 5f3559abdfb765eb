"""Level C3 without Lightning: ranks that speak to the communication library."""
