"""Binding of a vendor name's arguments when the user writes them, long before Lightning's class can reject them."""

from __future__ import annotations

import difflib
import inspect
import os
import warnings
from collections.abc import Collection, Mapping
from functools import cache
from itertools import takewhile
from typing import Any

from northbridge.errors import ArgumentsError


def bind(
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    positional: tuple[str, ...],
    without_meaning: Mapping[str, str],
    passed_on: Collection[str],
) -> dict[str, Any]:
    """Return the arguments of the call ``name(*args, **kwargs)`` by name, without those that have no meaning.

    ``positional`` are accepted in this order, ``passed_on`` only by name. Each of ``without_meaning`` causes one
    warning, which ends with its value. Raises :class:`ArgumentsError` for any other argument.
    """
    meant = [argument for argument in positional if argument not in without_meaning]
    accepted = f"it accepts {', '.join(meant) or 'none'}"
    if len(args) > len(positional):
        raise ArgumentsError(f"{name}() got {len(args)} positional arguments; {accepted}")
    given = dict(zip(positional, args, strict=False))
    for argument, value in kwargs.items():
        if argument in given:
            raise ArgumentsError(f"{name}() got {argument}= twice, by position and by name")
        if argument not in (*positional, *without_meaning, *passed_on):
            near = difflib.get_close_matches(argument, [*meant, *passed_on], n=1)
            hint = f"; did you mean {near[0]}=?" if near else ""
            raise ArgumentsError(f"{name}() has no argument {argument}={hint}; {accepted}")
        given[argument] = value
    for argument in without_meaning:
        if argument in given:
            del given[argument]
            _warn_once(name, argument, without_meaning[argument])
    return given


@cache
def arguments_of_ddp() -> frozenset[str]:
    """Return the parameters of torch's ``DistributedDataParallel`` that a strategy does not set itself."""
    from torch.nn.parallel import DistributedDataParallel

    given_by_strategy = {"self", "module", "device_ids", "output_device"}
    return frozenset(inspect.signature(DistributedDataParallel.__init__).parameters) - given_by_strategy


@cache
def arguments_of_fsdp() -> frozenset[str]:
    """Return the parameters of torch's ``FullyShardedDataParallel`` that a strategy does not set itself."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    given_by_strategy = {"self", "module", "device_id"}
    return frozenset(inspect.signature(FullyShardedDataParallel.__init__).parameters) - given_by_strategy


_warned: set[tuple[str, str]] = set()


def _warn_once(name: str, argument: str, what_to_know: str) -> None:
    if (name, argument) in _warned or os.environ.get("LOCAL_RANK", "0") != "0":
        return
    _warned.add((name, argument))
    warnings.warn(f"{name}({argument}=…) has no meaning any more: {what_to_know}", stacklevel=_depth_of_the_user())


def _depth_of_the_user() -> int:
    """Return the ``stacklevel`` of the user's own line; vendor names differ in the number of calls between."""
    frames = inspect.stack(context=0)[1:]
    inner = (str(frame.frame.f_globals.get("__name__")).startswith("northbridge.") for frame in frames)
    return 1 + sum(takewhile(bool, inner))
