"""Reading of a folder's files, which may come from another machine, and may be incomplete."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pydantic

from northbridge.flight_recorder.analysis.calls import Call, Channel, Group, RankLog, RecordedRun, name_place
from northbridge.flight_recorder.records import (
    FORMAT,
    SUFFIX,
    CallRecord,
    EndRecord,
    ExitRecord,
    GroupRecord,
    IdleRecord,
    PlaceRecord,
    RankRecord,
    Record,
    RunRecord,
    record_reader,
)
from northbridge.processes.endings import state_of
from northbridge.untrusted.files import read_file

_STRAY_S = 600.0
"""Maximum age, before a run begins, of a process that counts as its rank without having made a call."""


class FolderError(Exception):
    """The folder has no records that can be judged."""


@dataclass
class _File:
    """The readable lines of one file, by kind."""

    rank: RankRecord
    run: str
    groups: dict[str, GroupRecord] = field(default_factory=dict)
    places: dict[int, PlaceRecord] = field(default_factory=dict)
    calls: list[CallRecord] = field(default_factory=list)
    ends: dict[int, EndRecord] = field(default_factory=dict)
    idle: IdleRecord | None = None
    exited: bool = False

    def add(self, record: Record) -> None:
        if isinstance(record, CallRecord):
            self.calls.append(record)
        elif isinstance(record, EndRecord):
            self.ends[record.call] = record
        elif isinstance(record, PlaceRecord):
            self.places[record.place] = record
        elif isinstance(record, GroupRecord):
            self.groups[record.group] = record
        elif isinstance(record, RunRecord):
            self.run = record.run
        elif isinstance(record, IdleRecord):
            self.idle = record
        elif isinstance(record, ExitRecord):
            self.exited = True


def read_folder(folder: Path) -> RecordedRun:
    """Read the records of the newest run's ranks in ``folder``. Raises :class:`FolderError`."""
    if not folder.is_dir():
        raise FolderError(f"{folder} is not a folder. Fix: name the recorder's folder")
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    if not paths:
        raise FolderError(
            f"{folder} has no {SUFFIX} files. Fix: wait for a rank to begin, or check NORTHBRIDGE_FLIGHT_RECORDER"
        )
    damages: list[str] = []
    files = [each for each in (_read(path, damages) for path in paths) if each is not None]
    if not files:
        raise FolderError("; ".join(damages) or f"the files in {folder} are still empty. Fix: try again")
    processes: dict[tuple[object, ...], list[_File]] = defaultdict(list)
    for each in files:
        processes[each.rank.rank, each.rank.host, each.rank.process, each.rank.started].append(each)
    chosen = _newest_run(list(processes.values()))
    newest: dict[int, list[_File]] = {}
    for segments in sorted(chosen, key=lambda each: each[0].rank.started):
        newest[segments[0].rank.rank] = segments
    logs = {rank: _log(segments) for rank, segments in sorted(newest.items())}
    world_size = max(each[0].rank.world_size for each in newest.values())
    return RecordedRun(world_size, logs, tuple(damages), left_out=len(files) - sum(map(len, newest.values())))


def _read(path: Path, damages: list[str]) -> _File | None:
    try:
        *lines, torn = read_file(path).split(b"\n")
    except OSError as error:
        damages.append(f"{path} cannot be read: {error.strerror or error}")
        return None
    del torn  # an incomplete line: the process died, or the disk was full
    found: _File | None = None
    for number, line in enumerate(lines, start=1):
        try:
            record = record_reader.validate_json(line)
            if found is None:
                if not isinstance(record, RankRecord) or record.format != FORMAT:
                    damages.append(f"{path} was not written by this version of the flight recorder: it is left out")
                    return None
                found = _File(record, record.run)
            else:
                found.add(record)
        except pydantic.ValidationError:
            damages.append(f"{path} is damaged in line {number}: only the lines before it are used")
            break
    return found


def _newest_run(processes: list[list[_File]]) -> list[list[_File]]:
    """Return the processes of the run that was active last."""

    def run_of(segments: list[_File]) -> str:
        return max(each.run for each in segments)

    def last(segments: list[_File]) -> float:
        return max([segments[0].rank.started, *(each.at for file in segments for each in file.calls)])

    newest = max(processes, key=last)
    name, meeting = run_of(newest), _met(newest)
    members = [each for each in processes if name and run_of(each) == name]
    ranks = {each[0].rank.rank for each in members}
    began = min(each[0].rank.started for each in members or [newest])
    # A rank that has made no call yet does not know the run's name.
    return members + [
        each
        for each in processes
        if not run_of(each)
        and _met(each) == meeting
        and each[0].rank.rank not in ranks
        and each[0].rank.started > began - _STRAY_S
    ]


def _met(segments: list[_File]) -> tuple[str, str]:
    return segments[0].rank.meeting, segments[0].rank.restart


def _log(segments: list[_File]) -> RankLog:
    about = segments[0].rank
    ends = {call: end for each in segments for call, end in each.ends.items()}
    groups: dict[str, Group] = {}
    counts: dict[tuple[Group, str], int] = {}
    for known in (known for each in segments for known in each.groups.values()):
        ranks = tuple(known.ranks) if known.ranks is not None else tuple(range(about.world_size))
        group = groups[known.group] = Group(known.name, ranks, known.life, known.description)
        for channel, count in known.counts.items():
            counts[group, channel] = max(count, counts.get((group, channel), 0))
    calls: list[Call] = []
    recorded = [(each, record) for each in segments for record in each.calls]
    for each, record in sorted(recorded, key=lambda pair: pair[1].call):
        if record.group not in groups or record.place not in each.places:
            continue  # its own line is damaged
        call = _call(record, groups[record.group], each.places[record.place], ends.get(record.call))
        calls.append(call)
        key = call.group, str(call.channel)
        counts[key] = max(call.number, counts.get(key, 0))
    return RankLog(
        about.rank,
        calls,
        counts,
        host=about.host,
        process=about.process,
        state=state_of(about.process, about.process_ticks, about.machine),
        seen=_last_seen(segments),
        exited=any(each.exited for each in segments),
    )


def _last_seen(segments: list[_File]) -> str:
    """Return the place of the rank after its last call, if it was recorded."""
    called = max((each.at for file in segments for each in file.calls), default=0.0)
    seen = [
        (file.idle.at, file.places[file.idle.place])
        for file in segments
        if file.idle is not None and file.idle.at > called and file.idle.place in file.places
    ]
    return name_place(max(seen, key=lambda pair: pair[0])[1].frames) if seen else ""


def _call(record: CallRecord, group: Group, place: PlaceRecord, end: EndRecord | None) -> Call:
    two = record.direction is not None
    tensors = [f"{dtype} {shape}" for dtype, shape in record.tensors]
    if record.more:
        tensors.append(f"and {record.more} more")
    return Call(
        group,
        record.operation,
        record.number,
        record.at,
        Channel(record.direction or "", record.peer, record.tag) if two else Channel(),
        root=None if two else record.peer,
        tensors=", ".join(tensors),
        elements=record.elements,
        place=name_place(place.frames),
        thread=place.thread,
        how="waiting" if end is None else end.how,
        ended=None if end is None else end.at,
        why="" if end is None else end.why,
    )
