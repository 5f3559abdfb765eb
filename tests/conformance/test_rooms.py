"""Each room of the suite imports from those below it alone; see tests/test_import_graph.py for the core's."""

from __future__ import annotations

from tests.import_graph import PACKAGES, imports_of, modules_of

ROOMS = (
    "verdict",
    "figures",
    "runs",
    "rank_programs",
    "run",
    "step_by_step",
    "suite",
    "ahead",
    "tests",
    "levels",
    "runner",
    "pytest_plugin",
    "report",
    "commands",
)
"""The lowest first."""

SUITE = "northbridge_conformance."


def test_no_import_goes_up() -> None:
    modules = modules_of(PACKAGES[1])
    imports = [
        each
        for module, file in modules.items()
        if module != "northbridge_conformance"
        for each in imports_of(module, file, modules)
        if each.imported != "northbridge_conformance"
    ]

    def floor(module: str) -> int:
        return ROOMS.index(module.removeprefix(SUITE).partition(".")[0])

    assert {module.removeprefix(SUITE).partition(".")[0] for module in modules} - {"northbridge_conformance"} == {
        *ROOMS
    }
    assert [str(each) for each in imports if floor(each.imported) > floor(each.importer)] == []
