"""States of the random generators: the host's, which Lightning collects, and the chip's, which it does not.

Lightning uses them to isolate a sanity check or a learning-rate search from the rest of a run. A Trainer's checkpoint
contains those of every rank, so that a resumed run draws the numbers that an uninterrupted run would.
"""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch.distributed

from northbridge.discovery.current import has_generators, loaded, seed_chip
from northbridge.lightning.accelerators.accelerator import held
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.plugins.containers import replace_in
from northbridge.processes.endings import describe_error

KEY = "northbridge_random_states"
"""Name of the states in a Trainer's checkpoint: an attribute of its loops, which are therefore an OrderedDict.

It is a list with one entry for each rank. Users' tests and tools compare all keys of a checkpoint with Lightning's own,
and Lightning warns of an unknown key among its callbacks. torch saves and opens an OrderedDict with its attributes.
"""

CHIPS = "northbridge"
"""Key of the chips' states among those that Lightning collects in a process."""

_LOOPS = "loops"


@dataclass(frozen=True)
class _Numbers:
    """A state in the form in which it is sent to another rank."""

    dtype: torch.dtype
    values: list[int]


class _Loops(OrderedDict[str, Any]):
    """Loops with the states of one checkpoint; a copy made by calling its class, as AsyncCheckpointIO does, has them.

    Each checkpoint has a subclass. It refers to its loops weakly: a class lives until Python's cycle collector runs.
    """

    made: ClassVar[list[weakref.ref[_Loops]]]

    def __init__(self, loops: Mapping[str, Any], states: list[dict[str, Any]] | None = None) -> None:
        super().__init__(loops)
        living = (each for each in (made() for made in self.made) if each is not None)
        setattr(self, KEY, getattr(next(living, None), KEY, None) if states is None else states)
        self.made.append(weakref.ref(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return OrderedDict, (), {KEY: getattr(self, KEY)}, None, iter(self.items())


def _as_numbers(value: Any) -> Any:
    return _Numbers(value.dtype, value.tolist()) if isinstance(value, torch.Tensor) else value


def _as_tensor(value: Any) -> Any:
    return torch.tensor(value.values, dtype=value.dtype) if isinstance(value, _Numbers) else value


def chip_states() -> dict[str, torch.Tensor]:
    """Return the states of the generators of the chips that this process holds, by backend, on the CPU."""
    return {name: backend.device.random_state() for name, backend in held().items() if has_generators(backend)}


def set_chip_states(states: dict[str, torch.Tensor]) -> None:
    """Restore the states of :func:`chip_states`; ignore the state of a chip that this process does not hold."""
    for name, backend in held().items():
        if name in states and has_generators(backend):
            backend.device.set_random_state(states[name])


@contextmanager
def seeded_with_torch() -> Iterator[None]:
    """Seed a loaded chip that this process does not hold yet, if torch's seed changes inside the ``with``.

    A spawned rank gets its parent's states of the host's generators after it has loaded the chip.
    """
    before = torch.initial_seed()
    yield
    backend = loaded()
    if backend is not None and backend.name not in held() and torch.initial_seed() != before:
        seed_chip(backend, torch.initial_seed())


def add(checkpoint: dict[str, Any], states: list[dict[str, Any]]) -> dict[str, Any]:
    """Return ``checkpoint`` with the random states of every rank."""
    loops = type(_Loops.__name__, (_Loops,), {"made": []})
    return {**checkpoint, _LOOPS: loops(checkpoint.get(_LOOPS, {}), states)}


def of_checkpoint(checkpoint: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the random states of every rank from ``checkpoint``; None if they are missing or malformed."""
    found = getattr(checkpoint.get(_LOOPS), KEY, None)
    if found is None or (isinstance(found, list) and all(isinstance(each, dict) for each in found)):
        return found
    _warn_of_foreign(f"a {type(found).__name__}")
    return None


def gather(namespace: Namespace, world_size: int) -> list[dict[str, Any]]:
    """Gather the random states of every rank, as a checkpoint holds them. All ranks must call it."""
    states = _as_saved(namespace.fabric_module("utilities.seed")._collect_rng_states())
    if world_size == 1:
        return [states]
    collected: list[dict[str, Any]] = [{}] * world_size
    # A tensor is pickled by torch.save. Users count its calls, and replace it.
    torch.distributed.all_gather_object(collected, replace_in(states, _as_numbers))
    gathered: list[dict[str, Any]] = replace_in(collected, _as_tensor)
    return gathered


def restore(namespace: Namespace, states: dict[str, Any]) -> None:
    """Restore this rank's states from :func:`gather`; broken states change no generator and cause a warning."""
    seeds = namespace.fabric_module("utilities.seed")
    before = seeds._collect_rng_states()
    try:
        seeds._set_rng_states(_as_collected(states))
    except Exception as error:  # noqa: BLE001 - any error of numpy, torch or the chip about a malformed state
        seeds._set_rng_states(before)
        _warn_of_foreign(describe_error(error))


def _warn_of_foreign(what: str) -> None:
    warnings.warn(
        f"the checkpoint's random states ({KEY!r}) were not written by Northbridge, or are damaged: {what}. Random"
        " numbers begin with the seed",
        stacklevel=3,
    )


def _as_saved(states: dict[str, Any]) -> dict[str, Any]:
    # In the form that torch.load(weights_only=True) opens: no arrays, and no state of CUDA, which is not this run's.
    saved = {key: value for key, value in states.items() if key != "torch.cuda"}
    if "numpy" in saved:
        kind, keys, *rest = saved["numpy"]
        saved["numpy"] = (kind, torch.tensor(keys.tolist()), *rest)
    return saved


def _as_collected(states: dict[str, Any]) -> dict[str, Any]:
    collected = dict(states)
    if "numpy" in collected:
        kind, keys, *rest = collected["numpy"]
        collected["numpy"] = (kind, keys.numpy().astype("uint32"), *rest)
    return collected
