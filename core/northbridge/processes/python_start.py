"""How Python is started in a child process: it imports from where this process does, and not from where it stands."""

from __future__ import annotations

import os
import sys


def python_command(code: str, *arguments: str) -> list[str]:
    """Return the command that runs ``code`` in a Python of its own, with ``arguments`` in ``sys.argv[1:]``.

    ``-P`` would do, but Python 3.10 does not know it; ``-I`` would drop what PYTHONPATH adds.
    """
    return [sys.executable, "-c", f"import sys; sys.path[:] = {import_path()}; {code}", *arguments]


def import_path() -> list[str]:
    """Return ``sys.path`` as a child gets it: whole paths, without ``""``.

    With ``python -c`` and in a notebook Python itself puts ``""`` there. It is the working directory of the moment,
    where a ``torch.py`` may lie that nobody has looked at. A folder that is named stays: a script's own, that of
    ``python -m``, and what the user added. This process imports from there, too.
    """
    return [os.path.abspath(each) for each in map(str, sys.path) if each]
