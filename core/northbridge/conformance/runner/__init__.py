"""The process that runs the suite, and goes on where that hangs or dies."""
