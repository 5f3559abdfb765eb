"""Level C4: long runs, killed ranks, and jobs side by side."""
