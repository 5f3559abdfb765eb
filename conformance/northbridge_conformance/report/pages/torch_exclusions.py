"""A report in the format of torch's own tests for out-of-tree devices."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Verdict

OPERATIONS = ("Operations", "OperationOptions", "ExtremeNumbers", "LargeOperations")
"""The classes with a test for each of torch's operations; the parameter begins with the operation's full name."""


@dataclass(frozen=True)
class Exclusions:
    """Arguments of ``torch.testing._internal.common_device_type.PrivateUse1TestBase.set_test_configs(**…)``."""

    test_exclusions: dict[str, tuple[str, ...]]
    """For each class the functions with a test that did not pass; ``"*"``: none of the class's tests passed."""

    op_allowlist: tuple[str, ...] | None
    """The operations whose tests all passed; None means no limit, because no operation was tested."""

    def to_json(self) -> str:
        """Return the keyword arguments as the text of a JSON file with one object."""
        return json.dumps(asdict(self), indent=1) + "\n"


def list_exclusions(report: Report) -> Exclusions:
    """Return the tests of ``report`` that did not pass, as exclusions.

    A class that runs at several levels counts as one. A function with a test for each operation is excluded if none
    of them passed; if some did, the list of operations says which.
    """
    functions: dict[str, dict[str, list[bool]]] = {}
    operations: dict[str, bool] = {}
    for test in report.tests:
        passed = test.verdict is Verdict.PASS
        functions.setdefault(test.class_name, {}).setdefault(test.function, []).append(passed)
        if test.class_name in OPERATIONS and test.parameters:
            name, _, _ = test.parameters.partition(",")
            operations[name] = operations.get(name, True) and passed
    excluded = {}
    for class_name, tests in functions.items():
        enough = any if class_name in OPERATIONS else all
        names = tuple(sorted(name for name, passed in tests.items() if not enough(passed)))
        if not any(any(passed) for passed in tests.values()):
            names = ("*",)
        if names:
            excluded[f"Test{class_name}"] = names
    allowed = tuple(sorted(name for name, passed in operations.items() if passed)) if operations else None
    return Exclusions(dict(sorted(excluded.items())), allowed)
