"""The tree of errors, and each of them survives the way home from a rank."""

from __future__ import annotations

import inspect
import pickle

import pytest

from northbridge import errors
from northbridge.errors import BackendError, NorthbridgeError, UnsupportedError, VariableError, WeightsDisagreeError

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
    "PluginError": "PluginImport PluginHook PluginAPI PluginName PluginContract",
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


def test_each_carries_its_subject() -> None:
    assert BackendError("", backend="acme").backend == "acme"
    assert VariableError("", variable="MASTER_PORT").variable == "MASTER_PORT"
    assert UnsupportedError("", capability="bfloat16").capability == "bfloat16"
    assert WeightsDisagreeError("", ranks=(2,)).ranks == (2,)
