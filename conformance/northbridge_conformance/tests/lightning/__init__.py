"""Levels C2 and C3: Lightning's features, on one device and on several."""
