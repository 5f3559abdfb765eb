"""The processes in which the suite trains, as users' scripts do.

A ``scenario`` describes a run; ``rank_programs`` has its steps; ``findings`` are the results of the ranks.
``processes`` starts them.
"""
