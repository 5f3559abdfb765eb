"""Every overload of aten that torch's dispatcher lists, called with arguments drawn for its schema."""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from tests.ops.calls import Called, call_on, compare_call, difference
from tests.ops.draw import Draw
from tests.ops.entries import SAID, Outcome
from tests.ops.exceptions import NOT_CALLED
from torch import Tensor
from torch.utils import _pytree as pytree

DRAWS = 48
"""So many calls of an overload are drawn; most overloads refuse most of them."""

MOST_CALLS = 4
"""After so many that the CPU computes, or that fail, no more are drawn."""

REPEATED = 8
"""So often a call that fails is made on the CPU, to find out whether its arguments decide what it does."""

LIMIT_S = 120
"""So long may the calls of one overload run."""

_GUARD, _GUARD_BYTES = 0xA5, 4096

Numbered = list[tuple[int, dict[str, Any]]]
"""Calls by their numbers, with their outcomes as dictionaries."""


def listed() -> Iterator[tuple[str, str]]:
    """Yield the name of each overload, and the word for the dtypes of its arguments."""
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and name not in NOT_CALLED and _overload(name) is not None:
            yield name, "drawn"


def _overload(name: str) -> Any:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    try:
        return getattr(getattr(torch.ops.aten, packet), overload or "default")
    except AttributeError:  # Python cannot call it
        return None


def run(name: str, _: str) -> Outcome:
    """Make the drawn calls in forks of this process, which has not used the chip, and return what came of it.

    Kernels trust some of their arguments, and then read or write memory that is not theirs. A call that fails, or ends
    its fork, is left out if it does not give the same each time on the CPU, or ends a fork there.
    """
    outcome = Outcome()
    place = mmap.mmap(-1, 2)  # the number of the call that a fork makes, and whether it is on the chip
    first = 0
    made = 0
    while first < DRAWS and made < MOST_CALLS:
        place[:] = bytes((first, 0))
        told, died = _told_by_fork(_make_calls, name, first, MOST_CALLS - made, place)
        if died is not None and place[1]:
            crashed = Outcome(calls=1, failed=1, failures=[f"call {place[0]}: ended its process by {died}"])
            told = [(place[0], asdict(crashed))]
        for number, said in told:
            made += 1
            one = Outcome(**said)
            if not one.failed or _repeats_on_the_cpu(name, number):
                outcome.calls += one.calls
                outcome.failed += one.failed
                outcome.refused += one.refused
                outcome.rounded += one.rounded
                outcome.failures = [*outcome.failures, *one.failures][:SAID]
        if died is None:
            break
        first = place[0] + 1
    return outcome


def _make_calls(name: str, first: int, most: int, place: mmap.mmap) -> Numbered:
    overload = _overload(name)
    told: Numbered = []

    def call(*args: Any, **kwargs: Any) -> Any:
        places = (getattr(leaf, "device", leaf) for leaf in pytree.tree_leaves((args, kwargs)))
        place[1] = any(isinstance(each, torch.device) and each.type != "cpu" for each in places)
        return overload(*args, **kwargs), args, kwargs

    for number in range(first, DRAWS):
        place[:] = bytes((number, 0))
        one = Outcome()
        compare_call(one, f"call {number}", call, _draw(name, number), backward=False)
        if one.calls or one.failed:
            told.append((number, asdict(one)))
        if len(told) == most:
            break
    return told


def _repeats_on_the_cpu(name: str, number: int) -> bool:
    told, _ = _told_by_fork(_call_again_and_again, name, number)
    return bool(told)


def _call_again_and_again(name: str, number: int) -> Numbered:
    overload = _overload(name)

    within: list[bool] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        held: list[Tensor] = []
        args, kwargs = pytree.tree_map(partial(_between_guards, held), (args, kwargs))
        try:
            return overload(*args, **kwargs), args, kwargs
        finally:
            within.append(all(bool((guard == _GUARD).all()) for guard in held))

    every: list[Called] = []
    for turn in range(REPEATED):
        _ = [torch.full((2**power,), turn + 1, dtype=torch.uint8) for power in range(4, 18) for _ in range(8)]
        del _  # what reads fresh memory finds these
        every.append(call_on("cpu", call, _draw(name, number), backward=False))
    same = all(
        one.error == every[0].error and difference(every[0].results, one.results, "cpu") is None for one in every
    )
    return [(number, {})] if same and all(within) else []


def _between_guards(held: list[Tensor], leaf: Any) -> Any:
    """Return a tensor again, with memory before and behind it which ``held`` gets: who writes there trusts too much."""
    if type(leaf) is not Tensor or leaf.layout is not torch.strided or leaf.requires_grad:
        return leaf
    strides = zip(leaf.shape, leaf.stride(), strict=True)
    reach = sum((size - 1) * stride for size, stride in strides) + 1 if leaf.numel() else 0
    step = leaf.element_size()
    memory = torch.full((2 * _GUARD_BYTES + reach * step,), _GUARD, dtype=torch.uint8)
    held += [memory[:_GUARD_BYTES], memory[_GUARD_BYTES + reach * step :]]
    placed = memory.view(leaf.dtype).as_strided(leaf.shape, leaf.stride(), _GUARD_BYTES // step)
    return placed.copy_(leaf)


def _draw(name: str, number: int) -> Any:
    return Draw(random.Random(f"{name} {number}")).arguments(_overload(name)._schema)


def _told_by_fork(run: Callable[..., Numbered], *arguments: Any) -> tuple[Numbered, str | None]:
    """Return what ``run`` returns in a fork, and how the fork ended if it did so early."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT_S)
        torch._C._set_deterministic_algorithms(True, warn_only=True)  # which fills memory that is not written
        try:
            told = run(*arguments)
        except BaseException:  # noqa: BLE001 - no error may leave the fork
            told = [(0, asdict(Outcome(calls=1, failed=1, failures=[traceback.format_exc(limit=-3)])))]
        os.write(writer, json.dumps(told).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        answered = answer.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return [], signal.Signals(-code).name
    return json.loads(answered), None
