"""Profiles of a chip's work: what ran on the device, read from the trace that torch or the vendor wrote."""
