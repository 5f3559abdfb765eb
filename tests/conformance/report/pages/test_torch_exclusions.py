"""The report in the words of torch's own tests: torch honours what is written."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from tests.conformance.report.pages.conftest import OPERATIONS, passing, report_of, result

from northbridge_conformance.report.pages.torch_exclusions import list_exclusions
from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Verdict

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ImportWarning)  # torch says so where its tests' own library is not there
    from torch.testing._internal.common_device_type import (
        CPUTestBase,
        DeviceTypeTestBase,
        OpDTypes,
        instantiate_device_type_tests,
        ops,
    )
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_utils import TestCase

pytestmark = pytest.mark.skipif(
    not hasattr(DeviceTypeTestBase, "set_test_configs"), reason="this torch has no set_test_configs"
)


@pytest.fixture
def base() -> Iterator[Any]:
    """torch's class of tests on the CPU, whose configuration is what it was afterwards."""
    before = {name: getattr(CPUTestBase, name) for name in ("op_overrides", "op_allowlist", "test_exclusions")}
    yield CPUTestBase
    CPUTestBase.set_test_configs(**before)  # type: ignore[no-untyped-call]  # torch's tests have no types


def instantiate(templates: type[TestCase]) -> set[str]:
    """Return the names of the tests that torch makes of ``templates`` for the CPU; none where it makes no class."""
    scope = {templates.__name__: templates}
    instantiate_device_type_tests(templates, scope, only_for="cpu")  # type: ignore[no-untyped-call]  # as above
    made: Any = scope.get(f"{templates.__name__}CPU")
    return set() if made is None else {name for name in vars(made) if name.startswith("test_")}


def template(name: str, *functions: str) -> type[TestCase]:
    """Return a class of torch's kind with tests of these names."""

    def test(self: TestCase, device: str) -> None:
        assert device == "cpu"

    return type(name, (TestCase,), dict.fromkeys(functions, test))


def test_a_test_that_did_not_pass_is_excluded_by_torch(mixed: Report, base: Any) -> None:
    base.set_test_configs(**json.loads(list_exclusions(mixed).to_json()))

    made = instantiate(template("TestTraining", "test_bf16_trains", "test_float8_is_refused"))

    assert made == {"test_float8_is_refused_cpu"}


def test_a_class_of_which_nothing_passed_is_excluded_as_a_whole(base: Any) -> None:
    tests = [result("Device", "indexing", Verdict.FAIL), result("Device", "views", Verdict.UNKNOWN)]

    found = list_exclusions(report_of(tests))
    base.set_test_configs(**json.loads(found.to_json()))

    assert found.test_exclusions == {"TestDevice": ("*",)}
    assert instantiate(template("TestDevice", "test_indexing", "test_of_another_day")) == set()


def test_only_the_operations_that_passed_are_tested_by_torch(mixed: Report, base: Any) -> None:
    base.set_test_configs(**json.loads(list_exclusions(mixed).to_json()))

    class TestOps(TestCase):
        @ops(op_db, dtypes=OpDTypes.none)  # type: ignore[untyped-decorator]  # as above
        def test_op(self, device: str, op: Any) -> None:
            assert op.full_name in OPERATIONS

    made = instantiate(TestOps)

    # "svd" failed, and "cos" was not tested; some operations have variants of one name.
    names = {name.removeprefix("test_op_").removesuffix("_cpu") for name in made}
    assert {name.replace(".", "_") for name in OPERATIONS} == names


def test_function_is_excluded_if_no_operation_passed(mixed: Report) -> None:
    assert "TestOperations" not in list_exclusions(mixed).test_exclusions
    failed = [result("Operations", "an operation", Verdict.FAIL, parameters=name) for name in ("abs", "add")]

    found = list_exclusions(report_of(failed))

    assert found.test_exclusions == {"TestOperations": ("*",)}
    assert found.op_allowlist == ()


def test_operation_is_allowed_if_every_test_passed() -> None:
    tests = [
        result("Operations", "an operation", parameters="add"),
        result("Operations", "its gradient", Verdict.FAIL, parameters="add"),
        result("Operations", "an operation", parameters="abs"),
        result("Operations", "its gradient", parameters="abs"),
        result("Operations", "an operation", parameters="clamp"),
        result("OperationOptions", "an operation", Verdict.FAIL, parameters="clamp, from below alone"),
    ]

    assert list_exclusions(report_of(tests)).op_allowlist == ("abs",)


def test_where_no_operation_was_tested_none_is_forbidden(nothing: Report) -> None:
    assert list_exclusions(nothing).op_allowlist is None


def test_of_a_report_in_which_all_is_well_nothing_is_excluded() -> None:
    found = list_exclusions(report_of(passing()))

    assert found.test_exclusions == {}
    assert found.op_allowlist == tuple(sorted(OPERATIONS))
