"""Decisions of Lightning's connectors, made for a chip."""
