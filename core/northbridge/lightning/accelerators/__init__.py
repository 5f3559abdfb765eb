"""The accelerator of a backend, and what it is asked."""
