"""Samplers and collate functions that keep the shapes of batches few."""
