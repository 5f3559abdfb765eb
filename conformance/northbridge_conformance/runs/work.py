"""The program of a scenario's processes: ``python -m northbridge_conformance.runs.work SCENARIO FOLDER``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from pkgutil import resolve_name

import torch.distributed

from northbridge.discovery.current import loaded
from northbridge.errors import UnsupportedError
from northbridge_conformance.runs.processes import dump_stacks_when_asked
from northbridge_conformance.runs.scenario import BEGINS, LAST, REFUSED, Scenario, name_of, write


def main(scenario: Scenario, folder: Path) -> None:
    """Run the scenario's steps in this process; the ranks leave their findings in ``folder``.

    A step that fails ends the processes, which would wait for each other; the suite runs the following ones in new
    processes. They continue after an unsupported step, which every rank refuses before any of them waits.
    """
    for step in scenario.steps:
        print(BEGINS.format(os.getpid(), step), flush=True)
        perform = resolve_name(step)
        try:
            perform(scenario, folder)
        except UnsupportedError as error:
            found = {"message": str(error), "capability": error.capability}
            write(folder, REFUSED + name_of(step), _rank(), found)
        chip = loaded()
        if scenario.launch == "ranks" and chip is not None and len(scenario.steps) > 1:
            chip.device.synchronize()  # an error that surfaces late is this step's, and not the next one's
    print(BEGINS.format(os.getpid(), LAST), flush=True)


def _rank() -> int:
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else int(os.environ.get("LOCAL_RANK", 0))


# A spawned rank imports this module too, under another name.
if __name__ in ("__main__", "__mp_main__"):
    dump_stacks_when_asked(Path(sys.argv[2]))

if __name__ == "__main__":
    main(Scenario.from_json(sys.argv[1]), Path(sys.argv[2]))
