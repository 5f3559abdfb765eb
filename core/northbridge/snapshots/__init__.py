"""Snapshots of a training's steps, and the first difference of two runs. Neither needs Lightning or a chip."""
