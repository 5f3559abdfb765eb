"""What maintainers run in a clone; no distribution has it."""
