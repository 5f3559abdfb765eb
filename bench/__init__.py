"""Measure the cost of Northbridge on this machine: ``python -m bench``, or ``make bench``."""
