"""Where ranks meet: the rank that keeps the store lets the group wait for those who are missing."""

from __future__ import annotations

import importlib
from typing import Any


def leave_the_waiting_to_the_group() -> None:
    """Let the rank that keeps torch's store go on to make its group at once.

    It would wait in the store until everybody has come there, and could only say how many have not. The making of a
    group waits for all of them too, as long, and names who is missing.
    """
    rendezvous: Any = importlib.import_module("torch.distributed.rendezvous")  # the package has a function of that name
    original = rendezvous.TCPStore

    def make_store(*, is_master: bool, **options: Any) -> Any:
        return original(is_master=is_master, wait_for_workers=not is_master, **options)

    rendezvous.TCPStore = make_store
