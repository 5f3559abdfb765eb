"""The processes in which the suite trains, as users' scripts do.

A ``scenario`` says what is to be run; ``steps`` are what its processes do, and ``findings`` what they leave.
``processes`` starts them.
"""
