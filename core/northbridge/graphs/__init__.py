"""Functions and training steps that a chip captures once and replays."""
