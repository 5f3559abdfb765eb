"""What processes of :mod:`northbridge.conformance.runs.question` are asked: ``answer(…)`` of each module returns JSON.

None imports another, nor anything of the suite: each is read by its path.
"""
