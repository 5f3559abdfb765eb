"""DeepSpeed's accelerator for a chip: chosen in place of the one that DeepSpeed detects when it is imported."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from northbridge.backend import Backend
from northbridge.discovery.current import loaded
from northbridge.errors import UnsupportedError, VariableError

_VARIABLE = "DS_ACCELERATOR"


@dataclass(frozen=True)
class Determinism:
    """torch's settings of deterministic algorithms, which an accelerator of DeepSpeed may change."""

    algorithms: bool
    warn_only: bool
    fills_memory: bool

    @classmethod
    def read(cls) -> Determinism:
        memory: Any = import_module("torch.utils.deterministic")
        algorithms = torch.are_deterministic_algorithms_enabled()
        return cls(
            algorithms, torch.is_deterministic_algorithms_warn_only_enabled(), bool(memory.fill_uninitialized_memory)
        )

    def apply(self) -> None:
        memory: Any = import_module("torch.utils.deterministic")
        torch.use_deterministic_algorithms(self.algorithms, warn_only=self.warn_only)
        memory.fill_uninitialized_memory = self.fills_memory


_wanted: dict[type, Determinism] = {}
"""The settings that each class of accelerators has made."""


def reject_missing(backend: Backend, asked: str, instead: str) -> None:
    """Raise :class:`UnsupportedError` if DeepSpeed does not run on the chip, or is not installed."""
    claim = backend.present_capabilities().deepspeed
    reason = claim.reason if claim.denied else "DeepSpeed has no accelerator for it"
    if claim.denied or backend.acceleration.deepspeed_accelerator is None:
        raise UnsupportedError(
            f"{asked} cannot run on {backend.name!r}: {reason}. Fix: {instead}", capability="deepspeed"
        )
    if find_spec("deepspeed") is None:
        raise UnsupportedError(
            f"{asked} needs DeepSpeed, which is not installed. Fix: pip install deepspeed", capability="deepspeed"
        )


def import_deepspeed() -> None:
    """Import DeepSpeed, which chooses an accelerator: the chip's if it is loaded.

    torch's deterministic algorithms stay as they are until :func:`run_as_wanted`. Raises :class:`VariableError` if the
    environment names an accelerator whose software is missing.
    """
    chip = loaded()
    if chip is not None and chip.acceleration.deepspeed_accelerator is not None:
        choose_accelerator(chip)
        return
    before = Determinism.read()
    try:
        _note_wanted(_accelerators().get_accelerator())
    except ValueError as error:
        asked = os.environ.get(_VARIABLE)
        if asked is None:
            raise
        if "deepspeed" not in sys.modules:  # its import has failed, and would fail again over what it has left
            for name in [each for each in sys.modules if each.startswith("deepspeed.")]:
                del sys.modules[name]
        raise VariableError(
            f"{_VARIABLE}={asked!r}: {str(error).rstrip('.')}. Fix: unset it", variable=_VARIABLE
        ) from error
    finally:
        before.apply()


def choose_accelerator(backend: Backend) -> Any:
    """Let DeepSpeed run on the chip, whichever accelerator it had before; return the accelerator.

    torch's deterministic algorithms stay as they are until :func:`run_as_wanted`. Raises :class:`VariableError` if the
    environment names another accelerator.
    """
    name = str(backend.acceleration.deepspeed_accelerator)
    asked = os.environ.get(_VARIABLE)
    if asked not in (None, name):
        raise VariableError(f"{_VARIABLE}={asked!r} is not for {backend.name!r}. Fix: unset it", variable=_VARIABLE)
    module, _, kind = name.rpartition(".")
    if not module:
        os.environ[_VARIABLE] = name  # where several are importable, DeepSpeed would choose by its own order
    before = Determinism.read()
    try:
        first = _accelerators().get_accelerator()
        is_chosen = type(first).__module__ == module and type(first).__name__ == kind if module else first._name == name
        if is_chosen:
            chosen = first
        else:
            _accelerators().set_accelerator(getattr(import_module(module), kind)() if module else None)
            chosen = _accelerators().get_accelerator()  # by the variable, if None was set
            _replace_kept(first, chosen)
        _note_wanted(chosen)
    finally:
        before.apply()
    return chosen


def check_builders(backend: Backend, accelerator: Any) -> None:
    """Raise :class:`VariableError` if DeepSpeed cannot look for its operators, because a variable is not set."""
    try:
        accelerator.create_op_builder("ShareMemCommBuilder")  # as the start of a process group does
    except KeyError as error:
        variable = str(error.args[0])
        if variable in os.environ or not variable.isupper():  # the name of something else
            raise
        raise VariableError(
            f"DeepSpeed on {backend.name!r} needs {variable}, which is not set. Fix: source the vendor's set-up script",
            variable=variable,
        ) from error


def _accelerators() -> Any:
    return import_module("deepspeed.accelerator.real_accelerator")


def _note_wanted(accelerator: Any) -> None:
    _wanted.setdefault(type(accelerator), Determinism.read())


def _replace_kept(first: Any, chosen: Any) -> None:
    """Replace what DeepSpeed's modules keep of the accelerator that was there when they were imported."""
    utils: Any = import_module("deepspeed.runtime.utils")
    utils.torch_memory_reserved, utils.torch_max_memory_reserved = chosen.memory_reserved, chosen.max_memory_reserved
    # Not in the accelerators' own packages, which are below op_builder.
    operators = [name for name in sys.modules if name.startswith("deepspeed.ops.") and "op_builder." not in name]
    for module in map(sys.modules.__getitem__, operators):
        for name, kept in list(vars(module).items()):
            if name.endswith("Builder") and isinstance(kept, type) and kept is first.get_op_builder(name):
                setattr(module, name, chosen.get_op_builder(name))


def run_as_wanted(accelerator: Any) -> Determinism:
    """Set torch's deterministic algorithms as ``accelerator`` wants them; return the settings before."""
    before = Determinism.read()
    wanted = _wanted[type(accelerator)]
    if wanted.algorithms and not before.algorithms:
        wanted.apply()
    return before


def place(accelerator: Any, root: torch.device) -> None:
    """Let ``accelerator`` name this rank's device."""
    name = type(accelerator).device_name

    def device_name(index: int | str | None = None) -> str:
        # DeepSpeed asks with LOCAL_RANK, a string, as if it were the index of the rank's device.
        return str(name(accelerator, root.index if isinstance(index, str) else index))

    accelerator.device_name = device_name
