"""Wait for a rank that never comes, while Northbridge's flight recorder keeps what each rank calls."""

from __future__ import annotations

import faulthandler
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.meeting import Rank, meet
from northbridge.conformance.runs.scenario import Scenario

SHORT_S = 5.0
"""How long the ranks wait for one that never comes."""

BOUND_S = 4 * SHORT_S
"""By when they have to be told that it does not come."""

STAY_S = 5 * SHORT_S
"""How long that one stays where it is, at most: its end, of which the others are told too, comes after the bound."""

GIVE_UP_S = 9 * SHORT_S
"""After which a rank that still waits is ended, with its stack: its library waits for ever."""

_FLIGHT = "NORTHBRIDGE_FLIGHT_RECORDER"


def perform(scenario: Scenario, folder: Path) -> None:
    """Have all ranks but the last begin a collective; they report what they were told, and the last one who is missed.

    The time limit is that of the whole group, as Lightning's strategies hand it to the backend.
    """
    os.environ[_FLIGHT] = str(folder / "flight")
    rank = meet(scenario, timedelta(seconds=SHORT_S), until=lambda: _gather_at_the_door(folder))
    rank.collective.all_reduce(rank.tensor([1.0]))
    group: Any = dist.new_group(timeout=timedelta(seconds=SHORT_S))
    rank.collective.barrier(group)
    if rank.is_last:
        _wait_for(folder, "told", rank.ranks - 1)
        write(folder, "missing_rank", rank.number, {"found": _judge(folder / "flight")})
        (folder / f"judged-{rank.number}").touch()
        _wait_for(folder, "told again", rank.ranks - 1)
        return
    found = {"all_reduce": _wait_in_vain(rank, lambda: rank.collective.all_reduce(rank.tensor([1.0])))}
    (folder / f"told-{rank.number}").touch()
    _wait_until((folder / f"judged-{rank.ranks - 1}").exists, STAY_S)
    found["barrier"] = _wait_in_vain(rank, lambda: rank.collective.barrier(group))
    write(folder, "missing_rank", rank.number, found)
    (folder / f"told again-{rank.number}").touch()


def _wait_for(folder: Path, what: str, ranks: int) -> None:
    """Wait until each of the first ``ranks`` has said ``what``, or has had the time to."""
    _wait_until(lambda: all((folder / f"{what}-{each}").exists() for each in range(ranks)), STAY_S)


def _gather_at_the_door(folder: Path) -> None:
    """Wait until every rank has loaded the chip's software, which may take longer than the short time limit."""
    (folder / f"here-{os.environ['RANK']}").touch()
    ranks = range(int(os.environ["WORLD_SIZE"]))
    _wait_until(lambda: all((folder / f"here-{each}").exists() for each in ranks), 100.0)


def _wait_until(condition: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)


def _wait_in_vain(rank: Rank, call: Callable[[], object]) -> dict[str, Any]:
    began = time.monotonic()
    faulthandler.dump_traceback_later(GIVE_UP_S, exit=True)
    try:
        call()
        rank.chip.synchronize()
    except RuntimeError as error:
        return {"error": str(error), "seconds": time.monotonic() - began}
    finally:
        faulthandler.cancel_dump_traceback_later()
    return {"error": "", "seconds": time.monotonic() - began}


def _judge(flight: Path) -> list[dict[str, Any]]:
    """Return what ``northbridge hang`` says of the record."""
    from northbridge.flight_recorder.analysis.judgement import judge
    from northbridge.flight_recorder.analysis.record_files import read_folder

    judgement = judge(read_folder(flight), time.time())
    return [{"kind": each.kind, "blamed": each.blamed, "text": each.text} for each in judgement.findings]
