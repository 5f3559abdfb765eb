"""A plugin whose module raises when it is imported."""

raise RuntimeError("libacme.so.3 wants GLIBC_2.99")
