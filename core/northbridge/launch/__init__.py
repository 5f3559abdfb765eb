"""From an environment to a process group, and to its end."""
