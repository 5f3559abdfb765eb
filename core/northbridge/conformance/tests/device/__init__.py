"""Level C1: one device as torch has it, in this process and without Lightning."""
