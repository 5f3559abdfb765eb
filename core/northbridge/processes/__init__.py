"""Child processes that cannot crash, hang or garble the process that asks them, and what a process is given."""
