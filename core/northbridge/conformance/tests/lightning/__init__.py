"""Levels C2 and C3: what Lightning's users do, with one device and with several."""
