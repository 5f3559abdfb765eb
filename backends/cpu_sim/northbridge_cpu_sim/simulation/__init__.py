"""What a vendor's simulation is made with: a device's facts, its installation, its cards, its record."""
