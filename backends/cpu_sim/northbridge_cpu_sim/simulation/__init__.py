"""Building blocks of a vendor's simulation: a device's facts, its installation, its cards, its record."""
