"""What Northbridge costs, measured on this machine: ``python -m bench``, or ``make bench``."""
