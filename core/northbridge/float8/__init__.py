"""Training and inference in float8: what a chip offers, torchao, and Intel Neural Compressor."""
