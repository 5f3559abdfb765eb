"""`northbridge profile`: the table of a device's events, from the files of any rank."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from northbridge.cli.app import app

KERNEL = {"ph": "X", "cat": "kernel", "name": "mm", "pid": 0, "tid": 7, "ts": 2.0, "dur": 4.0}
OPERATOR = {**KERNEL, "cat": "cpu_op", "name": "aten::mm", "pid": 77}


def written(path: Path, *events: object) -> str:
    path.write_text(json.dumps({"traceEvents": events}))
    return str(path)


def test_several_files_are_one_table(tmp_path: Path) -> None:
    other = {**KERNEL, "name": "add", "dur": 12.0}
    first, second = written(tmp_path / "0.json", KERNEL, OPERATOR), written(tmp_path / "1.json", KERNEL, other)

    ran = CliRunner().invoke(app, ["profile", first, second, "--rows", "1"])

    assert ran.exit_code == 0
    assert ran.stdout == (
        "name          count      total       mean   share\n"
        "-------------------------------------------------\n"
        "add               1  12.000 us  12.000 us   60.0%\n"
        "1 other name      2   8.000 us   4.000 us   40.0%\n"
        "-------------------------------------------------\n"
        "all               3  20.000 us   6.667 us  100.0%\n"
    )


def test_without_an_event_of_a_device_the_exit_code_is_1(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["profile", written(tmp_path / "0.json", OPERATOR)])

    assert ran.exit_code == 1
    assert ran.stdout.startswith("none: the trace has no device's row. Events of the host: 1 cpu_op. Fix: ")


def test_a_file_that_is_not_a_trace_is_wrong_usage(tmp_path: Path) -> None:
    path = tmp_path / "half.json"
    path.write_text('{"traceEvents": [')

    ran = CliRunner().invoke(app, ["profile", str(path)])

    assert ran.exit_code == 2
    assert ran.stderr.startswith(f"northbridge: {path} is not complete JSON: ")
