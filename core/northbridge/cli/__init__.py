"""The command ``northbridge``: one file for each of its commands."""
