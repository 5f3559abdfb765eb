"""Faults on purpose: what may be planned, how the variable writes it, and the plan that is in force."""
