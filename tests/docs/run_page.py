"""Run the samples of one page, in order, in one process: ``python run_page.py samples.json``.

A rank that Lightning starts runs this file again, as it runs a user's script, and ends after the sample that started
it: past it, it would write files that the first process reads. Around each sample the first process prints a line for
the test that reads along.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback

RANK_ZERO = "LOCAL_RANK" not in os.environ
STARTED_BY = "SAMPLE_THAT_STARTED_RANKS"


def main() -> None:
    # A fork did not import it at its start.
    runpy.run_path(os.path.join(os.path.dirname(__file__), "hidden", "sitecustomize.py"))
    with open(sys.argv[1]) as file:
        samples = json.load(file)
    last = len(samples) - 1 if RANK_ZERO else int(os.environ[STARTED_BY])
    for number, (place, line, code) in enumerate(samples[: last + 1]):
        if RANK_ZERO:
            os.environ[STARTED_BY] = str(number)
        _tell(f"sample {number}")
        try:
            # Blank lines in front, so that a traceback names the line of the page.
            exec(compile("\n" * (line - 1) + code, place, "exec"), sys.modules["__main__"].__dict__)
        except Exception as error:  # noqa: BLE001 - the page may be about it; the test decides
            traceback.print_exc()
            _tell(f"raised {''.join(traceback.format_exception_only(error))}")


def _tell(what: str) -> None:
    if RANK_ZERO:
        sys.stderr.flush()
        print(f"\n@@ {what}", flush=True)


if __name__ == "__main__":
    main()
