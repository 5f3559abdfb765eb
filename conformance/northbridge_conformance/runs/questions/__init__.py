"""Questions for processes of :mod:`northbridge_conformance.runs.question`: ``answer(…)`` of each module returns JSON.

A module does not import another one, nor anything of the suite, because it is read by its path.
"""
