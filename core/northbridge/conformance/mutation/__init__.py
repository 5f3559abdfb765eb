"""Faults that are made on purpose, to see whether the suite finds them: ``northbridge conformance --mutate``."""
