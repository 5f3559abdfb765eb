"""What Lightning's connectors decide, decided for a chip."""
