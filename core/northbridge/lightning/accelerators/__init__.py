"""The accelerator of a backend, and its answers to Lightning."""
