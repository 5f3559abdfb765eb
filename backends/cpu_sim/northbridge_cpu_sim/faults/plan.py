"""The plan of faults of this process, and the faults that happened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook

from northbridge_cpu_sim.faults.fault import VARIABLE, Fault, filters, read_plan
from northbridge_cpu_sim.settings import SimSettings


@dataclass(frozen=True)
class MetFault:
    """A planned fault that has happened: the ``step`` of its plan, the operation, and the device or None.

    ``seq`` is the number of a collective's call in its group, and None for any other operation.
    """

    fault: Fault
    rank: int
    step: int
    op: str
    device: int | None
    seq: int | None


@dataclass(eq=False)
class _Planned:
    """A fault of a plan, with its name in messages, and its counters in the chip once the chip has it."""

    fault: Fault
    text: str
    position: int
    first_step: int
    held: Any = None


_ever: list[_Planned] = []  # indexed by the chip's number of each
_in_force: list[_Planned] = []
_chip: ModuleType | None = None
_steps = 0
_counting = False


@contextmanager
def planned_faults(*faults: Fault) -> Iterator[None]:
    """Plan ``faults`` for this process inside the ``with``, in addition to those already planned.

    The chip may be in use already, or be loaded later. At the end the former plan applies again, with its counts, and a
    device that one of ``faults`` lost is usable again. Raises TypeError for an object that is not a :class:`Fault`.
    """
    for fault in faults:
        if not isinstance(fault, Fault):
            raise TypeError(f"planned_faults() got {fault!r}. Fix: Fault('raise', op='mm')")
    added = _plan(faults, "planned_faults")
    try:
        yield
    finally:
        _in_force[:] = [each for each in _in_force if each not in added]
        _tell_chip()


def faults_met() -> tuple[MetFault, ...]:
    """Return the planned faults that have happened in this process, oldest first; the last 10000 are kept."""
    if _chip is None:
        return ()
    return tuple(
        MetFault(
            _ever[met.id].fault,
            met.rank,
            met.step,
            met.op,
            met.device if met.device >= 0 else None,
            met.seq or None,
        )
        for met in _chip.faults_met()
    )


def count_step() -> None:
    """Count a training step, in a loop without an optimizer of torch; torch's optimizers count by themselves."""
    global _steps
    _steps += 1


def read_variable() -> tuple[Fault, ...]:
    """Parse the faults of ``NORTHBRIDGE_CPU_SIM_FAULTS``. Raises :class:`northbridge.SettingsError`."""
    return read_plan(SimSettings.read().faults)


def begin(chip: ModuleType, faults: tuple[Fault, ...]) -> None:
    """Give the installed ``chip`` the faults: the variable's ``faults``, and those already planned."""
    global _chip
    _chip = chip
    chip.set_fault_place(lambda: (_rank(), _steps))
    if faults or _in_force:
        _plan(faults, VARIABLE)


def _plan(faults: tuple[Fault, ...], source: str) -> list[_Planned]:
    global _counting
    if not _counting:
        register_optimizer_step_post_hook(lambda *_: count_step())
        _counting = True
    added = [_Planned(fault, f"{fault}, of {source}", number, _steps) for number, fault in enumerate(faults)]
    _in_force.extend(added)
    _tell_chip()
    return added


def _tell_chip() -> None:
    if _chip is None:
        return
    for planned in _in_force:
        if planned.held is None:
            planned.held = _hold(_chip, planned)
    _chip.plan_faults([planned.held for planned in _in_force])


def _hold(chip: ModuleType, planned: _Planned) -> Any:
    held = chip.Fault()
    _ever.append(planned)
    held.id = len(_ever) - 1
    held.text, held.position, held.first_step = planned.text, planned.position, planned.first_step
    held.kind = planned.fault.kind
    said = filters(planned.fault)
    said["times"] = None if planned.fault.times == "always" else planned.fault.times
    for name, value in said.items():
        if value is not None or name == "times":
            setattr(held, name, value)
    return held


def _rank() -> int:
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    for name in ("RANK", "LOCAL_RANK"):
        text = os.environ.get(name, "")
        if text.isdecimal():
            return int(text)
    return 0
