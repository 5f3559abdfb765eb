"""What the files of all ranks say together."""
