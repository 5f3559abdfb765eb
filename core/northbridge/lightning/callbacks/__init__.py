"""Callbacks for a Trainer."""
