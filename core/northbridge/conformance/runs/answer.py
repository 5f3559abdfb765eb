"""A process that answers one question about a plugin, for :mod:`northbridge.conformance.runs.question`.

Run by its path, and each question is read from its file: to import the package around them would import pytest, and a
process in which much is there already does not show what a plugin brings.
"""

import os
import sys


def main(path: str, question: str, reply: str, *arguments: str) -> None:
    """Write to the file ``reply``, as JSON, what ``answer(*arguments)`` of the file ``question`` returns."""
    sys.path[:] = path.split(os.pathsep)
    import faulthandler
    from importlib.util import module_from_spec, spec_from_file_location

    faulthandler.enable()  # who asked sends SIGABRT where it waits too long, and reads where this process was
    spec = spec_from_file_location("question", question)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    facts = module.answer(*arguments)
    import json

    with open(reply, "w") as file:
        json.dump(facts, file)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a vendor's threads may keep the process alive past its answer


if __name__ == "__main__":
    main(*sys.argv[1:])
