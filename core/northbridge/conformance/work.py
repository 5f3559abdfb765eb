"""What a scenario's processes run: ``python -m northbridge.conformance.work SCENARIO FOLDER``."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from pathlib import Path

from northbridge.conformance.findings import write
from northbridge.conformance.hanging import dump_stacks_when_asked
from northbridge.conformance.mutations import mutate_if_asked
from northbridge.conformance.scenario import FAILED, Scenario


def main(scenario: Scenario, folder: Path) -> None:
    """Do the scenario's duties in this process; the ranks leave their findings in ``folder``.

    A process that is alone goes on after a duty that failed. Several would wait for each other.
    """
    for duty in scenario.duties:
        perform = import_module(f"northbridge.conformance.duties.{duty}").perform
        try:
            perform(scenario, folder)
        except Exception:
            if not scenario.alone:
                raise
            write(folder, FAILED + duty, 0, {"traceback": traceback.format_exc()})


# A spawned rank imports this module too, under another name.
if __name__ in ("__main__", "__mp_main__"):
    dump_stacks_when_asked(Path(sys.argv[2]))
    mutate_if_asked()

if __name__ == "__main__":
    main(Scenario.from_json(sys.argv[1]), Path(sys.argv[2]))
