"""Files of ranks, written by the recorder's own writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from northbridge.flight_recorder.records import Segments


def rank_record(rank: int, **more: Any) -> dict[str, object]:
    facts = {"kind": "rank", "format": 1, "rank": rank, "world_size": 2, "host": "node-a", "process": 100 + rank}
    facts |= {"process_ticks": None, "machine": "", "started": 1000.0, "meeting": "127.0.0.1:29500", "restart": ""}
    return {**facts, "run": "run-1", "program": "train.py", **more}


def group_record(**more: Any) -> dict[str, object]:
    facts = {"group": "0/1", "name": "0", "life": 1, "ranks": [0, 1], "counts": {}, "description": "default_pg"}
    return {"kind": "group", **facts, "library": "gloo", **more}


def place_record(*frames: tuple[str, str, int, str], thread: str = "") -> dict[str, object]:
    return {"kind": "place", "place": 0, "thread": thread, "frames": frames or [("__main__", "train.py", 3, "fit")]}


def call_record(number: int, **more: Any) -> dict[str, object]:
    facts = {"call": number, "group": "0/1", "operation": "all_reduce", "number": number, "at": 1000.0 + number}
    return {"kind": "call", **facts, "place": 0, "tensors": [["float32", [4]]], "elements": 4, "more": 0, **more}


def end_record(call: int) -> dict[str, object]:
    return {"kind": "end", "call": call, "at": 1001.0, "how": "finished", "why": ""}


def write(folder: Path, rank: dict[str, Any], *records: dict[str, object]) -> Path:
    """Write the file of a rank and return its path."""
    segments = Segments(folder, rank=rank["rank"], host=rank["host"], process=rank["process"], started=rank["started"])
    segments.turn_over()
    segments.write(rank, *records)
    segments.close()
    (path,) = folder.glob(f"rank-{rank['rank']}.{rank['host']}.{rank['process']}.{int(rank['started'] * 1000)}.*")
    return path


def finished(folder: Path, rank: int, calls: int, **more: Any) -> Path:
    """Write the file of a rank that has finished so many calls."""
    numbers = range(1, calls + 1)
    done = [each for number in numbers for each in (call_record(number), end_record(number))]
    return write(folder, rank_record(rank, **more), group_record(), place_record(), *done)
