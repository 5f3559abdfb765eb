"""Run every suite, side by side: the core's, and that of each chip whose simulation needs processes of its own.

torch serves one accelerator a process, so that neither the simulated Gaudi nor the simulated Teco cards can be
tested in the process that tests ``cpu_sim``. The core's suite is shown while it runs, the others when they have ended.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack

CHIPS = ("hpu", "sdaa")
PYTEST = (sys.executable, "-m", "pytest")


def main() -> int:
    """Run them all, and return pytest's exit code: the first that is not 0."""
    with ExitStack() as stack:
        own = subprocess.Popen(PYTEST)
        others = []
        for chip in CHIPS:
            output = stack.enter_context(tempfile.TemporaryFile())
            environ = {**os.environ, "NORTHBRIDGE_SIMULATE": chip}
            command = [*PYTEST, f"tests/backends/{chip}"]
            suite = subprocess.Popen(command, env=environ, stdout=output, stderr=subprocess.STDOUT)
            others.append((chip, suite, output))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the suites, which say so
        codes = [own.wait()]
        for chip, suite, output in others:
            codes.append(suite.wait())
            print(f"\nmake test: {chip}, in a pytest of its own meanwhile", flush=True)
            output.seek(0)
            shutil.copyfileobj(output, sys.stdout.buffer)
            sys.stdout.flush()
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
