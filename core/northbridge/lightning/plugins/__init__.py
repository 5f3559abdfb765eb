"""Precision, checkpoints, normalization and random states: what Lightning calls plugins."""
