"""Commands that read files, on damaged ones: one line, no success, within a second."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError
from tests.conformance.report.conftest import passing, report_of
from tests.core.command import Told, northbridge_here as northbridge
from tests.core.flight_recorder.files import call_record, end_record, group_record, place_record, rank_record
from tests.core.lightning.damage import damaged

from northbridge.errors import ReportError
from northbridge.untrusted.files import MOST_BYTES
from northbridge_conformance.report.report import Report

Record = dict[str, object]

DEEP = "[" * 100_000
VALUES: tuple[object, ...] = (
    *(None, True, 0, -1, 10**12, -(10**12), 10**30, 1e308, float("nan"), float("inf"), "", "C9", "no", "\x1b[31mred"),
    *("ü" * 50, "x" * 100_000, [], {}, [[]], [None], {"a": 1}, list(range(1000)), "\ud800", "../../etc", 0.5),
)
"""Values of a wrong type."""


@pytest.fixture(scope="module", autouse=True)
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first command imports what all of them need."""
    northbridge("compare", tmp_path_factory.mktemp("nothing"), "nothing")
    northbridge("hang", tmp_path_factory.mktemp("nothing"))


def changed(value: Any, draw: Random) -> Any:
    """Return a copy of ``value`` in which one place is lost, or holds something else."""
    value = json.loads(json.dumps(value))
    places = [(value, key) for key in value]
    while True:
        inside, key = draw.choice(places)
        found = inside[key]
        if not isinstance(found, (dict, list)) or not found or draw.random() < 0.2:
            break
        places = [(found, each) for each in (found if isinstance(found, dict) else range(len(found)))]
    if draw.random() < 0.2:
        del inside[key]
    else:
        inside[key] = draw.choice(VALUES)
    return value


def refused(told: Told, code: int = 2) -> str:
    """Return the one line that is told, and nothing else."""
    assert (told.code, told.out) == (code, "")
    (line,) = told.err.splitlines()
    assert line.startswith("northbridge: ")
    assert told.seconds < 1
    return line


NO_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "folder": (Path.mkdir, "it is a folder"),
    "pipe": (os.mkfifo, "it is a device or a pipe"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "it is a device or a pipe"),
    "huge": (
        lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), MOST_BYTES + 1),
        "it has more than 64 MiB",
    ),
    "missing": (lambda path: None, "No such file or directory"),
}


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("command", [("compare", "good.json"), ("conformance", "--verify")])
def test_report_that_is_not_a_file(
    command: tuple[str, ...], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report_of(passing()).write(Path("good.json"))
    make, reason = NO_FILES[kind]
    make(Path("report.json"))

    assert reason in refused(northbridge(*command, "report.json"))


@pytest.mark.parametrize("kind", [kind for kind in NO_FILES if kind != "missing"])
def test_record_that_is_not_a_file(kind: str, tmp_path: Path) -> None:
    make, reason = NO_FILES[kind]
    make(tmp_path / "rank-0.a.1.2.0.flight.jsonl")

    assert reason in refused(northbridge("hang", tmp_path))


@pytest.fixture(scope="module")
def report() -> Any:
    return json.loads(report_of(passing()).sealed().to_json())


def with_denial(report: Any) -> Any:
    name, claim = next(iter(report["claims"].items()))
    return {**report, "claims": {**report["claims"], name: {**claim, "answer": "no", "reason": ""}}}


REPORTS: dict[str, tuple[Callable[[Any], str | bytes], str]] = {
    "unknown level": (
        lambda report: json.dumps({**report, "suite": {**report["suite"], "asked": "C9"}}),
        "in suite.asked: Value error, unknown level",
    ),
    "denial without a reason": (lambda report: json.dumps(with_denial(report)), "a claim of 'no' needs a reason"),
    "deep": (lambda report: DEEP, "recursion limit exceeded"),
    "not UTF-8": (lambda report: b'{"began": "\xff"}', "Invalid JSON"),
    "huge number": (lambda report: json.dumps({**report, "seconds": 10**400}), "in seconds: Input should be"),
    "huge id": (lambda report: json.dumps({**report, "suite": {"asked": "x" * 10**6}}), "in suite."),
    "empty": (lambda report: "", "of schema 1: in the file: Invalid JSON: EOF"),
    "no report": (lambda report: "{}", "in suite: Field required. Fix: run the suite again"),
    "another version": (lambda report: '{"schema_version": 2}', "in schema_version: Input should be 1"),
}


@pytest.mark.parametrize("kind", REPORTS)
@pytest.mark.parametrize("command", [("compare", "good.json"), ("conformance", "--verify")])
def test_report_with_one_fault(
    command: tuple[str, ...], kind: str, report: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.json").write_text(json.dumps(report))
    make, reason = REPORTS[kind]
    content = make(report)
    Path("report.json").write_bytes(content if isinstance(content, bytes) else content.encode())

    line = refused(northbridge(*command, "report.json"))

    assert line.startswith("northbridge: report.json is not a conformance report")
    assert reason in line
    assert len(line) < 500


def is_the_same(content: bytes, report: Any) -> bool:
    """Return True if no given value differs; fields with their default may be omitted."""
    try:
        return Report.model_validate_json(content) == Report.model_validate(report)
    except ValidationError:
        return False


def test_damaged_report(report: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that can be read, and was changed, is compared with a doubt and fails to verify."""
    monkeypatch.chdir(tmp_path)
    content, draw, ends = json.dumps(report).encode(), Random(23), set[object]()
    Path("good.json").write_bytes(content)

    for number in range(60):
        wrong = json.dumps(changed(report, draw)).encode() if number % 2 else damaged(content, draw)
        if is_the_same(wrong, report):
            continue
        Path("report.json").write_bytes(wrong)
        verified = northbridge("conformance", "--verify", "report.json")
        compared = northbridge("compare", "good.json", "report.json")
        if verified.code == 2:
            assert refused(verified) == refused(compared)
        else:
            assert (verified.code, verified.err) == (1, "")
            assert verified.out.startswith("report.json: its digest does not match its content: it was changed")
            assert compared.code in (0, 1)
            assert "The report was changed after it was written" in compared.out
            assert max(verified.seconds, compared.seconds) < 1
        ends.add(verified.code)

    assert ends == {1, 2}


def test_changed_report_that_was_sealed_again(report: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its digest fits, each thing in it is looked at."""
    from northbridge_conformance.report import suite_run

    monkeypatch.setattr(suite_run, "plan", lambda *_: {})
    monkeypatch.chdir(tmp_path)
    draw, sealed = Random(23), 0

    for _ in range(25):
        Path("report.json").write_text(json.dumps(changed(report, draw)))
        try:
            Report.read(Path("report.json")).sealed().write(Path("report.json"))
        except ReportError:
            continue
        told, sealed = northbridge("conformance", "--verify", "report.json"), sealed + 1
        assert (told.code, told.err) == (1, "")
        assert all(line.startswith("report.json: ") for line in told.out.splitlines())

    assert sealed > 5


def records(rank: int) -> list[Record]:
    calls = [each for number in (1, 2) for each in (call_record(number), end_record(number))]
    sent = call_record(3, operation="send", direction="send", peer=1 - rank, tag=0)
    last: list[Record] = [{"kind": "idle", "at": 1010.0, "place": 0}, {"kind": "exit", "at": 1011.0}]
    return [rank_record(rank), {"kind": "run", "run": "run-1"}, group_record(), place_record(), *calls, sent, *last]


def write_ranks(folder: Path, *ranks: list[Record]) -> None:
    for rank, lines in enumerate(ranks):
        path = folder / f"rank-{rank}.node-a.{rank}.1.0.flight.jsonl"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


RECORDS: dict[str, tuple[Callable[[], list[Record]], int]] = {
    "a world of 10^12": (lambda: [{**rank_record(0), "world_size": 10**12}, *records(0)[1:]], 1),
    "a rank beyond its world": (lambda: [{**rank_record(0), "rank": 2}, *records(0)[1:]], 1),
    "no ranks": (lambda: [*records(0)[:2], group_record(ranks=[]), *records(0)[3:]], 3),
    "a rank of 10^12": (lambda: [*records(0)[:2], group_record(ranks=[0, 10**12]), *records(0)[3:]], 3),
    "a time without an end": (lambda: [*records(0)[:4], {**call_record(1), "at": float("inf")}], 5),
    "no time": (lambda: [*records(0)[:4], {**call_record(1), "at": float("nan")}], 5),
    "a huge number": (lambda: [*records(0)[:4], {**call_record(1), "number": 10**400}], 5),
    "a huge name": (lambda: [*records(0)[:4], {**call_record(1), "operation": "x" * 10**6}], 5),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_record_with_one_fault(kind: str, tmp_path: Path) -> None:
    make, line = RECORDS[kind]
    write_ranks(tmp_path, make(), records(1))

    told = northbridge("hang", tmp_path)

    assert told.code == 1
    assert f"rank-0.node-a.0.1.0.flight.jsonl is damaged in line {line}: only" in told.out.replace("\n", " ")
    assert len(told.out) < 3000
    assert told.seconds < 1


def test_largest_world_is_told_briefly(tmp_path: Path) -> None:
    """A quarter of a million ranks have written nothing, and none of them is listed by itself."""
    write_ranks(
        tmp_path,
        *([{**rank_record(rank), "world_size": 1 << 18}, group_record(ranks=None), *records(0)[3:]] for rank in (0, 1)),
    )

    told = northbridge("hang", tmp_path)

    assert told.code == 1
    assert "ranks 2-262143 of 262144 have written nothing" in told.out.replace("\n", " ")
    assert len(told.out) < 3000
    assert told.seconds < 1


def test_damaged_records(tmp_path: Path) -> None:
    draw = Random(23)
    for number in range(100):
        ranks = [records(0), records(1)]
        victim = draw.choice(ranks)
        place = draw.randrange(len(victim))
        victim[place] = changed(victim[place], draw)
        write_ranks(tmp_path, *ranks)
        if number % 3 == 0:
            path = tmp_path / "rank-1.node-a.1.1.0.flight.jsonl"
            path.write_bytes(damaged(path.read_bytes(), draw))

        told = northbridge("hang", tmp_path, *(["--json"] if number % 2 else []))

        if told.code == 2:
            refused(told)
        else:
            assert (told.code, told.err) == (1, "")
            assert len(told.out) < 10_000
            assert told.seconds < 1


@pytest.mark.parametrize("line", [DEEP, '{"kind":"rank"' * 1000, "null", "7"])
def test_record_that_is_not_an_object(line: str, tmp_path: Path) -> None:
    (tmp_path / "rank-0.a.1.2.0.flight.jsonl").write_text(f"{line}\n")

    assert "is damaged in line 1" in refused(northbridge("hang", tmp_path))
