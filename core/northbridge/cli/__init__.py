"""The command ``northbridge``."""
