"""The names of packages that vendors have archived, and what they stand for."""
