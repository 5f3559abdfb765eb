"""Input from outside: text is cleaned before it is shown, and only regular files are read."""
