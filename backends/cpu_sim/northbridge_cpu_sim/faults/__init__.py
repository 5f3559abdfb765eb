"""Faults on purpose: their fields, their grammar in the variable, and the current plan."""
