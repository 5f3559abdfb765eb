"""A process that answers one question about a plugin, for :mod:`northbridge_conformance.runs.question`.

It is run by its path, and reads each question from its file. Importing the package around them would import pytest,
and a process with many modules already imported would not show those that a plugin imports.
"""

import os
import sys


def main(path: str, question: str, function: str, reply: str, *arguments: str) -> None:
    """Write the result of ``function(*arguments)`` of the file ``question`` as JSON to the file ``reply``."""
    sys.path[:] = path.split(os.pathsep)
    import faulthandler
    from importlib.util import module_from_spec, spec_from_file_location

    faulthandler.enable()  # the asking process sends SIGABRT after its limit, and reads this process's stacks
    spec = spec_from_file_location("question", question)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        facts = getattr(module, function)(*arguments)
    except Exception as error:
        if not getattr(error, "timed_out", False):
            raise
        facts = {"timed out": str(error)}
    import json

    with open(reply, "w") as file:
        json.dump(facts, file)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a vendor's threads may keep the process alive past its answer


if __name__ == "__main__":
    main(*sys.argv[1:])
