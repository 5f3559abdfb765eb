from __future__ import annotations

import pytest

from northbridge.lightning.profilers.trace import Event, Row, Trace, show, summarize

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


@pytest.mark.parametrize(("limit", "rest"), [(2, "1 other name "), (1, "2 other names "), (0, "3 other names ")])
def test_a_limit_leaves_no_time_out(limit: int, rest: str) -> None:
    table = show(TRACES, limit)

    assert rest in table
    assert table.splitlines()[-1].split() == ["all", "4", "2.500", "ms", "625.000", "us", "100.0%"]


def test_events_of_no_time_have_no_share() -> None:
    assert summarize([Trace((Event("mm", 0.0),), {})]) == [Row("mm", 1, 0.0, 0.0, 0.0)]


def test_a_name_cannot_write_to_the_terminal_and_is_cut() -> None:
    first, *_ = show([Trace((Event("\x1b[31mk" * 90 + "\n", 2e6),), {})]).splitlines()[2:]

    assert first.split() == [f"{'k' * 54}…", "1", "2.000", "s", "2.000", "s", "100.0%"]


def test_without_a_devices_event_the_table_says_what_there_is() -> None:
    assert show([Trace((), {"cpu_op": 3}), Trace((), {"cpu_op": 1, "trace": 2})]) == (
        "none: the trace has no device's row. Events of the host: 4 cpu_op, 2 trace. Fix: check that the vendor's"
        " software traces its device with torch.profiler"
    )
