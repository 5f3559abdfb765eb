"""Training in float8: what a chip offers for it, and torchao."""
