"""What comes from outside: text is cleaned before it is shown, files are read as far as they are files."""
