"""The compiled chip: what it is made from, how it is compiled, and where it is kept."""
