"""Questions for processes of :mod:`northbridge.conformance.runs.question`: ``answer(…)`` of each module returns JSON.

None imports another, nor anything of the suite: each is read by its path.
"""
