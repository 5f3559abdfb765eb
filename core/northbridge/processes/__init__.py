"""Child processes that cannot crash, hang or garble their parent, and the environment of a process."""
