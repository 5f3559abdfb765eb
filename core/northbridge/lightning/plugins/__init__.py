"""Precision, checkpoints, normalization and random states: Lightning's plugins."""
