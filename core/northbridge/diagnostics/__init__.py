"""``northbridge list`` and ``northbridge doctor``: their findings, and how these are shown."""
