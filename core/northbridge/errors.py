"""The errors of Northbridge.

Every message names the request, the finding and the fix. This module imports only the standard library
(and northbridge.untrusted.text, which does the same), so that ``import torch`` never pays for it.
"""

from __future__ import annotations

import pickle

from northbridge.untrusted.text import clean_message


class NorthbridgeError(Exception):
    """Base of every error that Northbridge raises on purpose."""

    timed_out: bool = False
    """True if a time limit was exceeded."""

    def __init__(self, *args: object) -> None:
        # Messages quote variables, files and other processes, and are printed on a terminal.
        super().__init__(*(clean_message(each) if isinstance(each, str) else each for each in args))

    def __reduce__(self) -> tuple[object, ...]:
        # A rank sends its error to its parent by pickle, which loses an exception's keyword-only arguments.
        return _rebuild, (type(self), self.args, dict(self.__dict__))


class BackendError(NorthbridgeError):
    """A problem with the backend called ``backend``."""

    def __init__(self, message: str, *, backend: str) -> None:
        super().__init__(message)
        self.backend = backend


class BackendNotFoundError(BackendError, LookupError, ValueError):
    """No installed distribution has a backend of this name."""


class BackendDisabledError(BackendError):
    """``NORTHBRIDGE_DISABLE`` switched this backend off."""


class BackendConflictError(BackendError):
    """Two installed distributions have a backend of this name."""


class BackendNameError(BackendError):
    """The name belongs to one of Lightning's own accelerators, or is not allowed in a strategy's name or a variable."""


class PluginError(BackendError):
    """The distribution of the backend is broken."""


class PluginImportError(PluginError):
    """The plugin's module raised while it was imported."""


class PluginHookError(PluginError):
    """The plugin's hook is missing, misspelt, raises, or returns an object of another type."""


class PluginAPIError(PluginError):
    """The plugin was built for another version of the plugin API."""


class PluginNameError(PluginError):
    """The plugin's backend has another name than its entry point."""


class PluginContractError(PluginError):
    """The plugin's ``contract.toml`` cannot be read, or contradicts itself."""


class PluginClaimError(PluginError):
    """The plugin's claims name an operator that torch does not have."""


class SoftwareMissingError(BackendError):
    """The plugin is installed, the vendor's software is not."""


class SoftwareLoadError(BackendError):
    """The vendor's software is installed and failed to load."""


class ContractError(SoftwareLoadError):
    """The vendor's software differs from the backend's contract: a symbol is missing, or has other parameters."""


class SimulationError(BackendError):
    """``NORTHBRIDGE_SIMULATE`` names a backend without a simulation, or one whose real software is installed here."""


class NotSimulatedError(SimulationError, ModuleNotFoundError):
    """A module that the vendor may have, and the simulation of its chip lacks."""


class HardwareMissingError(BackendError, ValueError):
    """The software is installed, but no hardware was found."""


class DeviceBusyError(BackendError):
    """This process could not acquire a card, most often because another process holds it."""


class DetectionError(BackendError):
    """Detecting the hardware crashed, or took longer than its limit; then ``timed_out`` is True."""

    def __init__(self, message: str, *, backend: str, timed_out: bool = False) -> None:
        super().__init__(message, backend=backend)
        self.timed_out = timed_out


class DeviceTypeTakenError(BackendError):
    """torch already serves another accelerator in this process."""


class DevicesError(NorthbridgeError, ValueError):
    """``devices=`` asks for devices that this machine lacks."""


class DevicesTypeError(DevicesError, TypeError):
    """``devices=`` is neither a whole number, nor a sequence of whole numbers, nor a string."""


class WrongDeviceError(NorthbridgeError, ValueError):
    """A tensor, model or strategy is on another device than the chip."""


class CheckpointError(NorthbridgeError, OSError):
    """A checkpoint could not be written, and the old file is untouched; or a file is not a checkpoint."""


class CheckpointCodeError(CheckpointError, pickle.UnpicklingError):
    """A checkpoint needs code to load, but ``weights_only=True`` does not run code."""


class CollectiveError(NorthbridgeError, RuntimeError):
    """A collective did not, or cannot, run on the chip's library. torch raises RuntimeError in these cases."""


class ReductionError(CollectiveError, TypeError):
    """The reduction is unknown, or one that the chip's library lacks."""


class WeightsDisagreeError(NorthbridgeError):
    """The ranks train different models; ``ranks`` are those that differ from the most, or from rank 0."""

    def __init__(self, message: str, *, ranks: tuple[int, ...]) -> None:
        super().__init__(message)
        self.ranks = ranks


class UnsupportedError(NorthbridgeError):
    """The chip or Northbridge does not support the requested feature.

    ``capability`` is the missing ability: the name of a claim, or a word such as "autocast".
    """

    def __init__(self, message: str, *, capability: str) -> None:
        super().__init__(message)
        self.capability = capability


class ArgumentsError(NorthbridgeError, TypeError):
    """A class of Northbridge, or a vendor's name such as ``AcmeDDPStrategy``, does not accept these arguments."""


class ArgumentValueError(ArgumentsError, ValueError):
    """An argument has a value that is not allowed, such as an unknown precision."""


class NamespaceError(NorthbridgeError):
    """An object of one Lightning namespace was handed to another."""


class InstallationError(NorthbridgeError):
    """A distribution's metadata cannot be read, and with it no entry points; or the suite's distribution is missing."""


class ReportError(NorthbridgeError):
    """A report of the conformance suite cannot be read, compared with another, or written."""


class AmbiguousAcceleratorError(NorthbridgeError):
    """``auto`` found the hardware of two backends."""


class VariableError(NorthbridgeError, ValueError):
    """The environment variable ``variable`` is wrong or missing."""

    def __init__(self, message: str, *, variable: str) -> None:
        super().__init__(message)
        self.variable = variable


class ClusterError(VariableError):
    """The multi-node environment contradicts the run."""


class SettingsError(VariableError):
    """A ``NORTHBRIDGE_…`` variable has a value that is not allowed."""


def _rebuild(cls: type[NorthbridgeError], args: tuple[object, ...], state: dict[str, object]) -> NorthbridgeError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error
