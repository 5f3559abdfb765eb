from __future__ import annotations

import socket

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from northbridge_conformance.runs.ports import MOST_HELD, reserve_port


def test_a_rank_listens_there() -> None:
    port = reserve_port()

    store = TCPStore("127.0.0.1", port, 1, is_master=True)

    assert store.port == port


def test_nobody_else_gets_it_who_asks_for_any_port() -> None:
    reserved = {reserve_port() for _ in range(MOST_HELD)}

    given = set()
    for _ in range(30_000):  # twice as many as there are
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            given.add(other.getsockname()[1])

    assert not reserved & given
    assert len(reserved) == MOST_HELD


def test_no_more_are_held_than_a_process_may_have_files_open() -> None:
    first, *_ = [reserve_port() for _ in range(MOST_HELD + 1)]

    with socket.socket() as other:
        other.bind(("127.0.0.1", first))  # without SO_REUSEADDR
