"""The folders of runs that processes share: concurrent suites, and a suite that is started again.

Lightning's results on the CPU do not depend on the chip that is compared with them, and a chip repeats its results
under the same variables. If :data:`FOLDER` names a folder, each such run happens once, in the pytest that needs it
first; the others wait for it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from filelock import FileLock

FOLDER = "PYTEST_NORTHBRIDGE_RUNS"
"""The variable that names the folder. The process that sets it creates and finally deletes the folder.

Its prefix is pytest's, because the processes that tests start report Northbridge's settings as the user's.
"""


def folder_of_runs(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder that suites share, or None if they do not share one."""
    return Path(environ[FOLDER]) if environ.get(FOLDER) else None


def run_once(runs: Path, name: str, run: Callable[[], Path]) -> Path:
    """Return the folder of the run ``name``: the result of ``run``, called here or by an earlier process.

    A run that raises leaves no result: the next process that needs it tries again.
    """
    stem = hashlib.sha256(name.encode()).hexdigest()[:16]
    done = runs / f"{stem}.folder"
    with FileLock(runs / f"{stem}.lock"):
        if not done.exists():
            folder = run()
            done.write_text(str(folder))
    return Path(done.read_text())
