"""The processes in which the suite trains, as users' scripts do.

A ``scenario`` describes a run, whose steps are functions of ``tests``, and keeps the findings of its ranks. ``work`` is
the program of a rank, and ``processes`` starts it.
"""
