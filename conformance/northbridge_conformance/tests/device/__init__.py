"""Level C1: one device through torch, in this process and without Lightning."""
