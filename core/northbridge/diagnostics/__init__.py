"""``northbridge list`` and ``northbridge doctor``: what they find out, and how they show it."""
