"""The public names, all of them there and cheap to have; the tree of errors; and the record of silent decisions."""

from __future__ import annotations

import ast
import inspect
import logging
import pickle
import sys
from pathlib import Path

import pytest
from tests.core.conftest import Install

import northbridge
from northbridge import errors
from northbridge.errors import BackendError, NorthbridgeError, UnsupportedError, VariableError, WeightsDisagreeError
from northbridge.process_record import note

HEAVY = ["torch", "pydantic", "lightning", "pytorch_lightning", "lightning_fabric"]
ERRORS = [name for name, each in vars(errors).items() if inspect.isclass(each)]
TELL = f"import json, sys; print(json.dumps([each for each in {HEAVY} if each in sys.modules]))"


def test_type_checkers_see_the_names_that_are_public() -> None:
    source = ast.parse(Path(northbridge.__file__).read_text())
    (block,) = [each for each in source.body if isinstance(each, ast.If)]
    imports = [each for each in block.body if isinstance(each, ast.ImportFrom)]

    seen = {alias.asname or alias.name for each in imports for alias in each.names} | {*ERRORS}
    assert seen - {"*"} == set(northbridge.__all__)
    assert [each.module for each in imports if each.names[0].name == "*"] == ["northbridge.errors"]


@pytest.mark.parametrize("name", northbridge.__all__)
def test_a_public_name_resolves_to_what_is_called_so(name: str) -> None:
    value = getattr(northbridge, name)

    if inspect.isclass(value) or inspect.isfunction(value):  # and no constant, claim or type of a field
        assert value.__name__ == name


def test_a_star_import_brings_them_all(install: Install) -> None:
    names = install("acme").answer(
        "from northbridge import *; import json; print(json.dumps([each for each in dir() if each[0] != '_']))"
    )

    assert set(northbridge.__all__) == set(names) - {"json"}
    assert set(northbridge.__all__) <= set(dir(northbridge))
    assert len(northbridge.__all__) == len(set(northbridge.__all__))
    with pytest.raises(AttributeError, match="module 'northbridge' has no attribute 'hal9000'"):
        getattr(northbridge, "hal9000")  # noqa: B009 - type checkers know that it is not there


def test_it_imports_neither_torch_nor_pydantic_nor_lightning(install: Install) -> None:
    """Nor does a plugin, which pays for no reading of metadata, what torch runs, the list, or the record."""
    plugin = "import sys, northbridge, northbridge_acme; assert 'importlib.metadata' not in sys.modules"
    others = "import northbridge.autoload; northbridge.installed(); northbridge.record()"

    assert install("acme").answer(f"{plugin}; {others}; {TELL}") == []


def test_getting_a_backend_imports_neither_torch_nor_lightning(install: Install) -> None:
    code = "import northbridge; northbridge.get('acme'); northbridge.get('cpu_sim')"

    assert set(install("acme").answer(f"{code}; {TELL}")) <= {"pydantic"}


def test_errors_and_autoload_import_the_standard_library(install: Install) -> None:
    code = (
        "import json, sys; before = set(sys.modules); import northbridge.autoload, northbridge.errors;"
        " print(json.dumps(sorted({each.partition('.')[0] for each in set(sys.modules) - before})))"
    )

    assert set(install("acme").answer(code)) - sys.stdlib_module_names == {"northbridge"}


# --- Names of a module that are imported when somebody asks for one


def test_a_class_is_taken_from_its_home() -> None:
    from fractions import Fraction

    assert northbridge.lazy_names("acme", "fractions")("Fraction") is Fraction
    with pytest.raises(AttributeError, match="module 'fractions' has no attribute 'Acme'"):
        northbridge.lazy_names("acme", "fractions")("Acme")


@pytest.mark.parametrize("name", ["cards", "_private", "__path__"])
def test_other_names_do_not_import_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)

    with pytest.raises(AttributeError, match=f"^module 'acme' has no attribute '{name}'$"):
        northbridge.lazy_names("acme", "colorsys")(name)

    assert "colorsys" not in sys.modules


ALL = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, NorthbridgeError)]


PYTHONS = {
    "BackendNotFoundError": (LookupError, ValueError),
    "NotSimulatedError": (ModuleNotFoundError,),
    "HardwareMissingError": (ValueError,),
    "DevicesError": (ValueError,),
    "DevicesTypeError": (TypeError,),
    "WrongDeviceError": (ValueError,),
    "CheckpointError": (OSError,),
    "CheckpointCodeError": (pickle.UnpicklingError,),
    "CollectiveError": (RuntimeError,),
    "ReductionError": (TypeError,),
    "ArgumentsError": (TypeError,),
    "ArgumentValueError": (ValueError,),
    "VariableError": (ValueError,),
}
"""The errors of Python's that each error also is."""

PARENTS = {
    "BackendError": "BackendNotFound BackendDisabled BackendConflict BackendName Plugin SoftwareMissing SoftwareLoad"
    " Simulation HardwareMissing DeviceBusy Detection DeviceTypeTaken",
    "PluginError": "PluginImport PluginHook PluginAPI PluginName PluginClaim PluginContract",
    "SoftwareLoadError": "Contract",
    "SimulationError": "NotSimulated",
    "DevicesError": "DevicesType",
    "CheckpointError": "CheckpointCode",
    "CollectiveError": "Reduction",
    "ArgumentsError": "ArgumentValue",
    "VariableError": "Cluster Settings",
}
"""Each error that others derive from; all others derive from NorthbridgeError."""


def make(kind: type[NorthbridgeError]) -> NorthbridgeError:
    if issubclass(kind, BackendError):
        return kind("what happened", backend="acme")
    if issubclass(kind, VariableError):
        return kind("what happened", variable="MASTER_PORT")
    if issubclass(kind, UnsupportedError):
        return kind("what happened", capability="bfloat16")
    if issubclass(kind, WeightsDisagreeError):
        return kind("what happened", ranks=(2,))
    return kind("what happened")


@pytest.mark.parametrize("kind", ALL)
def test_each_error_has_its_bases(kind: type[NorthbridgeError]) -> None:
    name = kind.__name__
    parent = next((each for each, below in PARENTS.items() if name.removesuffix("Error") in below.split()), "")
    ours = Exception if kind is NorthbridgeError else getattr(errors, parent or "NorthbridgeError")

    assert kind.__bases__ == (ours, *PYTHONS.get(name, ()))


@pytest.mark.parametrize("kind", ALL)
def test_it_survives_the_way_home_from_a_rank(kind: type[NorthbridgeError]) -> None:
    """Quoted text is cleaned and cut, in the first process and after unpickling: it does nothing on a terminal."""
    error = make(kind)
    hostile = kind(f"\x1b]0;owned\x07found {'x' * 1000!r}", **error.__dict__)

    home = pickle.loads(pickle.dumps(error))

    assert (type(home), str(home), vars(home)) == (kind, "what happened", vars(error))
    assert str(hostile) == str(pickle.loads(pickle.dumps(hostile))) == f"found '{'x' * 199}…'"


@pytest.mark.usefixtures("nothing_known")
def test_what_is_noted_is_recorded_once_oldest_first(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "northbridge")
    before = northbridge.record()

    for _ in range(2):
        note("acme", "loaded", "it was asked for")
    note("auto", "chose acme", "its hardware is present")

    first = northbridge.Entry("acme", "loaded", "it was asked for")
    assert northbridge.record() == (first, northbridge.Entry("auto", "chose acme", "its hardware is present"))
    assert first.as_dict() == {"subject": "acme", "outcome": "loaded", "reason": "it was asked for"}
    assert (len(caplog.records), before) == (2, ())


@pytest.mark.usefixtures("nothing_known")
def test_the_log_has_a_line_for_it(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """Which does nothing on a terminal; where nobody listens nothing is printed."""
    note("acme", "not available", "no hardware is present", problem=True)
    assert capfd.readouterr() == ("", "")

    caplog.set_level(logging.DEBUG, "northbridge")
    note("acme", "not available", "no card", problem=True)
    note("acme", "passed over", "version 1.0\x1b]0;owned\x07\x9b")

    assert caplog.record_tuples == [
        ("northbridge", logging.INFO, "acme: not available: no card"),
        ("northbridge", logging.DEBUG, "acme: passed over: version 1.0\\u009b"),
    ]
