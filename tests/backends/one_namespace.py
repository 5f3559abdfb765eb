"""The part of a conformance level that a test adopts where the chip's proof has the whole."""

from __future__ import annotations

from typing import Any

from northbridge_conformance.suite import FABRICS, TRAINERS, NamespaceSuite, Suite


def in_one_namespace_of_a_kind(*suites: type[Suite]) -> tuple[type[Suite], ...]:
    """Run the tests of ``suites`` with one Trainer and one Fabric; the proof has them in all four namespaces."""

    def narrow(suite: type[Suite]) -> type[Suite]:
        if not issubclass(suite, NamespaceSuite):
            return suite
        runs = tuple(run for run in suite.runs if run[0] in (TRAINERS[0], FABRICS[0]))
        made: Any = type(suite.__name__, (suite,), {"runs": runs, "__doc__": suite.__doc__})
        return made  # type: ignore[no-any-return]

    return tuple(map(narrow, suites))
