"""The command ``northbridge``: one file a command."""
