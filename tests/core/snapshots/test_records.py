"""Files that are damaged, hostile, or not to be compared: one line each."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from tests.core.command import northbridge_here as northbridge
from tests.core.lightning.damage import damaged
from tests.core.test_damaged_input import changed
from torch import nn

from northbridge.snapshots.recorder import Snapshots
from northbridge.snapshots.records import name_file

FILE = name_file(0)


def write(folder: Path, width: int = 4, steps: Any = (0, 1)) -> Path:
    """Record the training of a small model."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    snapshots = Snapshots(folder, model, optimizer, steps=steps)
    for _ in range(4):
        with snapshots:
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
    return folder


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write(tmp_path / "good")


class Odd(nn.Module):
    """A layer whose first part returns nothing after ``silent`` steps."""

    def __init__(self, silent: int = 9) -> None:
        super().__init__()
        self.part, self.layer, self.silent = nn.Identity(), nn.Linear(3, 2), silent
        vars(self.part)["forward"] = self.pass_on

    def pass_on(self, rows: torch.Tensor) -> torch.Tensor | None:
        self.silent -= 1
        return rows if self.silent >= 0 else None

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        self.part(rows)
        scores: torch.Tensor = self.layer(rows)
        return scores


ODD: dict[str, tuple[dict[str, Any], str]] = {
    "update of zeros, and of NaN": ({"rate": math.nan}, "step 0, layer.weight: gradients equal to the bit, updates"),
    "no output": ({"silent": 1}, "step 1, part: its outputs have 1 tensors in A, 0 in B; "),
    "another sparse batch": ({"rows": 3}, "step 0, batch[0]: the batches differ by their shapes, [2, 2] and [3, 3]; "),
}


@pytest.mark.parametrize(("options", "said"), ODD.values(), ids=ODD)
def test_an_odd_difference_is_told(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    def train(folder: Path, rate: float = 0.0, silent: int = 9, rows: int = 2) -> Path:
        torch.manual_seed(0)
        model = Odd(silent)
        optimizer = torch.optim.SGD(model.parameters(), rate)
        snapshots = Snapshots(folder, model, optimizer)
        for _ in range(2):
            with snapshots:
                snapshots.batch(torch.eye(rows).to_sparse())
                optimizer.zero_grad()
                model(torch.ones(2, 3)).sum().backward()
                optimizer.step()
        return folder

    told = northbridge("diff", train(tmp_path / "a"), train(tmp_path / "b", **options))

    assert said in told.out, told.err
    assert told.code == 1


def test_growth_between_recorded_steps_is_told(tmp_path: Path) -> None:
    def train(folder: Path, wrong: int) -> Path:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        snapshots = Snapshots(folder, model, torch.optim.SGD(model.parameters(), 0.1), steps=(0, 10))
        for step in range(11):
            with snapshots, torch.no_grad():
                model(torch.ones(2, 3))
                model.weight *= 1.01 if step == wrong else 1
        return folder

    told = northbridge("diff", train(tmp_path / "a", -1), train(tmp_path / "b", 5))

    assert told.out.startswith("no difference beyond rounding: the first bits differ in step 10"), told.out
    assert "but steps 1 to 9 may hide a difference: record them in both; cause: order of sums" in " ".join(
        told.out.split()
    )
    assert told.code == 0


def edit(folder: Path, change: Callable[[list[Any]], object]) -> None:
    lines = [json.loads(line) for line in (folder / FILE).read_text().splitlines()]
    change(lines)
    (folder / FILE).write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def write_lines(folder: Path, kept: int, *lines: str) -> None:
    head = (folder / FILE).read_text().splitlines()[:kept]
    (folder / FILE).write_text("".join(f"{line}\n" for line in (*head, *lines)))


def nest(lines: list[Any]) -> None:
    """Put each of many calls into the one before it, deeper than Python calls functions."""
    (call, *_) = lines[1]["calls"]
    lines[1]["calls"] = [{**call, "call": number, "number": number, "inside": number - 1} for number in range(5000)]


def enlarge(lines: list[Any]) -> None:
    """Give a tensor a number whose square is infinite."""
    lines[1]["values"][0]["sample"][0] = 1e300


def two_ranks(folder: Path) -> None:
    edit(folder, lambda lines: lines[0].update(world_size=2))


def make_pipe(folder: Path) -> None:
    (folder / FILE).unlink()
    os.mkfifo(folder / FILE)


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "another model": (
        lambda folder: write(folder, width=5),
        "the models differ: '0.bias' is [4] in A and [5] in B. Fix:",
    ),
    "another world size": (two_ranks, "good has 1 ranks, "),
    "no common step": (lambda folder: write(folder, steps=[3]), "no common step: 2 from 0 to 1 in A, 3 in B. Fix:"),
    "another format": (lambda folder: edit(folder, lambda lines: lines[0].update(format=9)), "by this version of"),
    "cut in its first step": (lambda folder: os.truncate(folder / FILE, 2000), "has no whole step. Fix:"),
    "empty": (lambda folder: (folder / FILE).write_text(""), "has no whole step. Fix:"),
    "deep": (lambda folder: write_lines(folder, 1, "[" * 100_000), "is damaged in line 2"),
    "too large a number": (lambda folder: edit(folder, enlarge), "is damaged in line 2"),
    "no header": (lambda folder: write_lines(folder, 0, "{}"), "by this version of"),
    "calls in themselves": (lambda folder: edit(folder, nest), "is damaged in line 2"),
    "no file": (lambda folder: (folder / FILE).unlink(), "has no .snapshots.jsonl files. Fix:"),
    "a pipe": (make_pipe, "it is a device or a pipe"),
    "two runs": (
        lambda folder: (folder / name_file(7)).write_bytes((folder / FILE).read_bytes()),
        "several runs. Fix:",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_record_is_one_line(kind: str, good: Path, tmp_path: Path) -> None:
    make, reason = WRONG[kind]
    make(write(tmp_path / "other"))

    told = northbridge("diff", good, tmp_path / "other")

    assert (told.code, told.out) == (2, "")
    (line,) = told.err.splitlines()
    assert line.startswith("northbridge: ")
    assert reason in line


def test_a_missing_folder_is_one_line(good: Path) -> None:
    assert "nothing: No such file or directory. Fix: " in northbridge("diff", good, "nothing").err


def test_a_torn_file_is_used_to_its_last_step(good: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other")
    os.truncate(other / FILE, (other / FILE).stat().st_size - 10)

    told = northbridge("diff", good, other)

    assert told.code == 0
    assert "no difference: 1 steps are equal to the bit" in told.out


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("kept")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / FILE).symlink_to(tmp_path / "theirs")

    write(tmp_path / "run")

    assert (tmp_path / "theirs").read_text() == "kept"


def test_damaged_records_end_in_an_answer_or_a_line(good: Path, tmp_path: Path) -> None:
    other, draw = write(tmp_path / "other"), Random(23)
    content = (other / FILE).read_bytes()
    codes = set()
    for number in range(80):
        if number % 2:
            lines = content.splitlines()
            place = draw.randrange(len(lines))
            lines[place] = json.dumps(changed(json.loads(lines[place]), draw)).encode()
            (other / FILE).write_bytes(b"\n".join([*lines, b""]))
        else:
            (other / FILE).write_bytes(damaged(content, draw))

        told = northbridge("diff", good, other)

        codes.add(told.code)
        assert told.code in (0, 1, 2)
        assert told.seconds < 3
        assert len(told.out) < 10_000
        if told.code == 2:
            (line,) = told.err.splitlines()
            assert line.startswith("northbridge: ")
    assert codes >= {1, 2}
