"""Questions for processes of :mod:`northbridge_conformance.runs.question`: each function returns what fits into JSON.

A module does not import another one, nor anything of the suite, because it is read by its path.
"""
