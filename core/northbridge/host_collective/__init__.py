"""Collectives for a chip without a communication library: Gloo, over copies in the host's memory."""
