"""The store for ranks that torchrun starts again.

The store is torchrun's and survives the ranks: it still has the addresses of ended ranks, and newer releases of torch
let new ranks read them. So the ranks of each attempt agree on their own prefix in it.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from northbridge.errors import CollectiveError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

_ROOM = "northbridge/meeting"
_LOOK_SECONDS = 0.01


def store_of_attempt(rank: int, world_size: int, timeout: timedelta | None) -> Store | None:
    """Return a store for the ranks of this attempt; None if the launcher has no store for several attempts.

    The start of the process group calls it on every rank. Raises :class:`CollectiveError` if ranks do not appear within
    ``timeout``; None means torch's default.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    from torch._C._distributed_c10d import PrefixStore
    from torch.distributed.constants import default_pg_timeout
    from torch.distributed.rendezvous import rendezvous

    patience = timeout or default_pg_timeout
    store, *_ = next(rendezvous("env://", rank, world_size, timeout=patience))
    word = _invite(store, world_size, patience) if rank == 0 else _follow(store, rank, patience)
    return PrefixStore(f"northbridge/{word}", store)


def _invite(store: Store, world_size: int, patience: timedelta) -> str:
    # A question may be from an ended rank. Then no rank confirms the answer, and a newer question follows.
    word = uuid4().hex
    missing = set(range(1, world_size))
    deadline = time.monotonic() + patience.total_seconds()
    while missing:
        if time.monotonic() > deadline:
            raise CollectiveError(
                f"rank {', '.join(map(str, sorted(missing)))} did not join in {patience.total_seconds():g}"
                " s. Fix: read torchrun's output"
            )
        for rank in sorted(missing):
            if store.check([f"{_ROOM}/{word}/{rank}"]):
                missing.discard(rank)
            elif store.check([f"{_ROOM}/question/{rank}"]):
                question = store.get(f"{_ROOM}/question/{rank}").decode()
                store.set(f"{_ROOM}/answer/{question}", word)
        time.sleep(_LOOK_SECONDS)
    return word


def _follow(store: Store, rank: int, patience: timedelta) -> str:
    question = uuid4().hex
    store.set(f"{_ROOM}/question/{rank}", question)
    try:
        store.wait([f"{_ROOM}/answer/{question}"], patience)
    except RuntimeError as error:
        raise CollectiveError(
            f"rank {rank} waited {patience.total_seconds():g} s for rank 0. Fix: read torchrun's output"
        ) from error
    word = store.get(f"{_ROOM}/answer/{question}").decode()
    store.set(f"{_ROOM}/{word}/{rank}", "here")
    return word
