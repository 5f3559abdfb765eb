"""``make real``: prove third parties' real devices: ``python -m tests.real vulkan rgpu``.

Each gets an environment in ``.real`` and the tests of this folder; the suite's report goes to docs/reports. Exit codes:
pytest's, 2 for an unknown name, and 3 where no device could be prepared.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from tests.real.devices import ASKED, FOLDER, REAL, ROOT, NotHereError, prepare


def main(names: Sequence[str]) -> int:
    """Prepare the devices, run their tests, and return the exit code."""
    known = {device.name: device for device in REAL}
    if unknown := [name for name in names if name not in known]:
        print(f"make real: there is no {unknown[0]!r}. Fix: one of {', '.join(known)}", file=sys.stderr)
        return 2
    ready = []
    for name in names:
        try:
            prepare(known[name])
            ready.append(name)
        except NotHereError as error:
            print(f"make real: {error}", file=sys.stderr)
    if not ready:
        return 3
    environ = {**os.environ, ASKED: " ".join(ready)}
    pytest = [sys.executable, "-m", "pytest", "tests/real", "-q", "--durations=5"]
    code = subprocess.run(pytest, cwd=ROOT, env=environ, check=False).returncode
    for name in ready:
        report = FOLDER / "reports" / name / "report.json"
        if report.exists():
            kept = ROOT / "docs" / "reports" / name / report.name
            kept.parent.mkdir(exist_ok=True)
            shutil.copy(report, kept)
            print(f"make real: wrote {kept.relative_to(ROOT)}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
