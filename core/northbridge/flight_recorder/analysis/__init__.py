"""Analysis of the files of all ranks."""
