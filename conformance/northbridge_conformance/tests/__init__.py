"""The tests of the suite, in packages by topic."""
