"""The tests of the suite, in rooms by what they are about."""
