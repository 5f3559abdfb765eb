"""Lightning's launchers, for a chip's ranks."""
