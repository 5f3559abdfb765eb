"""The proof by ``northbridge conformance``, for a simulated chip; what it touches counts for the record of the run.

A chip's ``test_conformance.py`` derives from the class of this module.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.backends.simulated.chip import SimChip
from tests.conformance.proving import prove

from northbridge.conformance.runs.shared_runs import FOLDER
from northbridge.conformance.suite import FABRICS, TRAINERS, NamespaceSuite, Suite


def in_one_namespace_of_a_kind(*suites: type[Suite]) -> tuple[type[Suite], ...]:
    """Run the tests of ``suites`` with one Trainer and one Fabric; the proof has them in all four namespaces."""

    def narrow(suite: type[Suite]) -> type[Suite]:
        if not issubclass(suite, NamespaceSuite):
            return suite
        runs = tuple(run for run in suite.runs if run[0] in (TRAINERS[0], FABRICS[0]))
        made: Any = type(suite.__name__, (suite,), {"runs": runs, "__doc__": suite.__doc__})
        return made  # type: ignore[no-any-return]

    return tuple(map(narrow, suites))


class Proof:
    """The command grants the chip C3, simulated, with the strict options on, and its page is whole."""

    @pytest.mark.timeout(3600)  # the suite has limits of its own, and says which test outlasted them
    def test_it_earns_c3(self, sim: SimChip, environment: dict[str, str], tmp_path: Path) -> None:
        shared = {FOLDER: os.environ[FOLDER]} if FOLDER in os.environ else {}

        assert prove(sim.name, tmp_path / "report", {**environment, **shared}) == []
