"""What one Trainer and one Fabric prove on a chip where cpu_sim's proof has them of all namespaces.

Lightning comes in two packages, and Northbridge's classes for both have the same bodies. No backend and no stand-in
names a package. So on a vendor's chip the proof that CI runs has the tests of ``lightning`` alone: as a pytest plugin,
this module leaves those of the other package to the proof of cpu_sim, and lists them. A third party's proof has all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from northbridge_conformance.runner.recorder import identify
from northbridge_conformance.suite import FABRICS, TRAINERS, NamespaceSuite, Suite

LIST = "PYTEST_NORTHBRIDGE_LEFT_TO_CPU_SIM"
"""The variable that names the file with the ids of the tests that are left to cpu_sim's proof."""

OF_CPU_SIM = (*TRAINERS[1:], *FABRICS[1:])
"""The namespaces that cpu_sim's proof alone has."""


def in_one_namespace_of_a_kind(*suites: type[Suite]) -> tuple[type[Suite], ...]:
    """Run the tests of ``suites`` with one Trainer and one Fabric; the proof has them in all four namespaces."""

    def narrow(suite: type[Suite]) -> type[Suite]:
        if not issubclass(suite, NamespaceSuite):
            return suite
        runs = tuple(run for run in suite.runs if run[0] not in OF_CPU_SIM)
        made: Any = type(suite.__name__, (suite,), {"runs": runs, "__doc__": suite.__doc__})
        return made  # type: ignore[no-any-return]

    return tuple(map(narrow, suites))


def leaving_to_cpu_sim(environ: Mapping[str, str], ids: Path) -> dict[str, str]:
    """Return ``environ`` for a run of the suite that leaves tests to cpu_sim's proof, and writes their ``ids``."""
    plugins = [environ["PYTEST_PLUGINS"]] if environ.get("PYTEST_PLUGINS") else []
    return {**environ, "PYTEST_PLUGINS": ",".join([*plugins, __name__]), LIST: str(ids)}


@pytest.hookimpl(tryfirst=True)  # what is left is not planned
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    left = [item for item in items if _namespace(item) in OF_CPU_SIM]
    Path(os.environ[LIST]).write_text("\n".join(map(identify, left)))
    items[:] = [item for item in items if item not in left]


def _namespace(item: Any) -> str:
    """Return the namespace in which a test of the suite runs; empty for a test without one."""
    is_run = issubclass(item.getparent(pytest.Class).obj, NamespaceSuite)
    return item.callspec.params["namespace"] if is_run else ""
