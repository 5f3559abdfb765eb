"""The process that runs the suite, and continues if a test hangs or dies."""
