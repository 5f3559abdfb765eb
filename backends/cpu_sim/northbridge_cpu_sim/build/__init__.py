"""The compiled chip: its sources, its compilation, and its cache."""
