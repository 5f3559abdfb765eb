from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.core.lightning.conftest import refusal

from northbridge.lightning.profilers.trace import Event, Row, Trace, TraceError, read_trace, show, summarize

HOST = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 77, "tid": 77, "ts": 1.0, "dur": 9.0}
KERNEL = {"ph": "X", "cat": "kernel", "name": "mm", "pid": 0, "tid": 7, "ts": 2.0, "dur": 4.5}


def written(path: Path, *events: Any) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


@pytest.mark.parametrize(
    ("events", "host"),
    [
        ((HOST, KERNEL, HOST, {"ph": "s", "cat": "ac2g", "name": "f"}), {"cpu_op": 2}),
        ((KERNEL, *({**KERNEL, "cat": each} for each in ("gpu_user_annotation", "cuda_sync", "overhead"))), {}),
        (({**KERNEL, "pid": json.loads("[" * 900 + "]" * 900)},), {}),
    ],
    ids=["with operators", "with waits and annotations", "a row named by a nested value"],
)
def test_kernels_are_the_devices(tmp_path: Path, events: Any, host: dict[str, int]) -> None:
    trace = read_trace(written(tmp_path / "trace.json", *events))

    assert (trace.events, trace.host) == ((Event("mm", 4.5),), host)


@pytest.mark.parametrize("kind", ["process_labels", "process_name"])
@pytest.mark.parametrize("label", ["GPU 0", "/device:HPU:0"])
def test_a_row_that_is_labelled_is_a_devices(tmp_path: Path, kind: str, label: str) -> None:
    named = {"ph": "M", "name": kind, "pid": 5, "args": {"labels": label}}
    events = ({**KERNEL, "pid": 5, "cat": category, "name": category} for category in ("Memcpy", "Runtime"))

    trace = read_trace(written(tmp_path / "trace.json", named, HOST, *events))

    assert [event.name for event in trace.events] == ["Memcpy", "Runtime"]


def test_a_compressed_trace_and_a_bare_list_of_events(tmp_path: Path) -> None:
    bare = tmp_path / "trace.json"
    bare.write_text(json.dumps([KERNEL]))
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(bare.read_bytes()))

    assert read_trace(packed).events == read_trace(bare).events == (Event("mm", 4.5),)


def test_a_truncated_file_says_what_to_do(tmp_path: Path) -> None:
    path = written(tmp_path / "trace.json", KERNEL, KERNEL)
    path.write_bytes(path.read_bytes()[:-20])

    said = refusal(TraceError, read_trace, path)

    assert said.startswith(f"{path} is not complete JSON: ")
    assert said.endswith("Fix: profile again; a run that is ended writes half a file")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{}", "is JSON, but has no list 'traceEvents'. Fix: name a trace of torch.profiler"),
        (b'{"traceEvents": [3]}', "has an event that is not an object: 3"),
        (b'[{"ph": "X", "name": "mm", "dur": "4"}]', "event 'mm' has the duration '4', not a number from 0"),
        (b'[{"ph": "X", "name": "mm", "dur": -1}]', "event 'mm' has the duration -1, not a number from 0"),
        (b'[{"ph": "X", "name": "mm", "dur": NaN}]', "event 'mm' has the duration nan, not a number from 0"),
        (b'[{"ph": "X", "name": "mm", "dur": 1' + b"0" * 400 + b"}]", "event 'mm' has the duration 1000"),
        (b'[{"ph": "X", "name": "mm", "dur": 1e16}]', "the duration 1e+16, not a number from 0 to 1e+15"),
        (b'[{"ph": "X", "name": "mm", "dur": ' + b"[" * 900 + b"]" * 900 + b"}]", "event 'mm' has the duration [[[[[["),
        (b"[" * 900 + b"]" * 900, "has an event that is not an object: [[[[[["),
        (b"[" * 100_000, "is not complete JSON"),
        (b"\xff\xfe", "is not complete JSON"),
    ],
)
def test_what_is_not_a_trace_says_why(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)

    assert told in refusal(TraceError, read_trace, path)


@pytest.mark.parametrize("name", ["missing.json", "damaged.json.gz", "short.json.gz"])
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str) -> None:
    (tmp_path / "damaged.json.gz").write_bytes(b"no gzip")
    (tmp_path / "short.json.gz").write_bytes(gzip.compress(b"[]" * 99)[:-9])

    with pytest.raises(TraceError, match=f"{name} cannot be read: "):
        read_trace(tmp_path / name)


def test_a_pipe_or_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "trace.json")

    with pytest.raises(TraceError, match=r"trace.json cannot be read: .*it is a device or a pipe"):
        read_trace(tmp_path / "trace.json")
    with pytest.raises(TraceError, match=r"cannot be read: .*it is a folder"):
        read_trace(tmp_path)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_file_without_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("northbridge.lightning.profilers.trace._MOST_BYTES", 2**20)
    content = b"[" + b" " * 2**20 + b"]"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)

    with pytest.raises(TraceError, match=f"{name} cannot be read: .*it has more than 1 MiB"):
        read_trace(tmp_path / name)


TRACES = [
    Trace((Event("mm", 1500.0), Event("copy", 250.0)), {}),
    Trace((Event("mm", 500.0), Event("add", 250.0)), {"cpu_op": 3}),
]


def test_rows_have_count_total_mean_and_share() -> None:
    assert summarize(TRACES) == [
        Row("mm", 2, 2000.0, 1000.0, 0.8),
        Row("add", 1, 250.0, 250.0, 0.1),
        Row("copy", 1, 250.0, 250.0, 0.1),
    ]
    assert summarize([Trace((Event("mm", 0.0),), {})]) == [Row("mm", 1, 0.0, 0.0, 0.0)]


def test_the_table_is_as_shown() -> None:
    assert show(TRACES) == (
        "name  count       total        mean   share\n"
        "-------------------------------------------\n"
        "mm        2    2.000 ms    1.000 ms   80.0%\n"
        "add       1  250.000 us  250.000 us   10.0%\n"
        "copy      1  250.000 us  250.000 us   10.0%\n"
        "-------------------------------------------\n"
        "all       4    2.500 ms  625.000 us  100.0%"
    )


@pytest.mark.parametrize(("limit", "rest"), [(2, "1 other name "), (0, "3 other names ")])
def test_a_limit_leaves_no_time_out(limit: int, rest: str) -> None:
    table = show(TRACES, limit)

    assert rest in table
    assert table.splitlines()[-1].split() == ["all", "4", "2.500", "ms", "625.000", "us", "100.0%"]


def test_a_name_cannot_write_to_the_terminal_and_is_cut() -> None:
    first, *_ = show([Trace((Event("\x1b[31mk" * 90 + "\n", 2e6),), {})]).splitlines()[2:]

    assert first.split() == [f"{'k' * 54}…", "1", "2.000", "s", "2.000", "s", "100.0%"]


def test_without_a_devices_event_the_table_says_what_there_is() -> None:
    assert show([Trace((), {"cpu_op": 3}), Trace((), {"cpu_op": 1, "trace": 2})]) == (
        "none: the trace has no device's row. Events of the host: 4 cpu_op, 2 trace. Fix: check that the vendor's"
        " software traces its device with torch.profiler"
    )
