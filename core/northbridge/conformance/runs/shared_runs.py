"""The folders of runs, which processes share: suites that are run side by side, and one that is started again.

What Lightning does on the CPU does not depend on the chip that is compared with it, and a chip does the same again
under the same variables. Where :data:`FOLDER` names a folder, each such run happens once, in whichever pytest comes to
it first; the others wait for it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from filelock import FileLock

FOLDER = "PYTEST_NORTHBRIDGE_RUNS"
"""The variable; who sets it makes the folder, and deletes it when the last suite has ended.

It is pytest's and none of Northbridge's settings, which the processes that tests start tell of as a user's would.
"""


def folder_of_runs(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder that suites share, or None where they share none."""
    return Path(environ[FOLDER]) if environ.get(FOLDER) else None


def run_once(runs: Path, name: str, run: Callable[[], Path]) -> Path:
    """Return the folder of the run called ``name``: what ``run`` returns, here or in a process that did it before.

    A run that raises is not kept: the next process that wants it tries again.
    """
    stem = hashlib.sha256(name.encode()).hexdigest()[:16]
    done = runs / f"{stem}.folder"
    with FileLock(runs / f"{stem}.lock"):
        if not done.exists():
            folder = run()
            done.write_text(str(folder))
    return Path(done.read_text())
