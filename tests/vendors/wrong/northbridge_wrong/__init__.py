"""Backends that are subtly wrong: each the right parent and one override, and the parent itself."""
