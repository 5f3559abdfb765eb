"""The vendor's tools that look for dynamic shapes."""

from __future__ import annotations

import csv
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.backends.simulation.processes import Run
from torch import nn
from torch.utils.data import DataLoader


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 5), nn.Linear(5, 2)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.second(self.first(rows))
        return out


def table(file: Path) -> list[dict[str, str]]:
    with file.open() as lines:
        return list(csv.DictReader(lines))


def test_it_writes_which_modules_were_compiled_in_which_step(hpu: ModuleType, tmp_path: Path) -> None:
    from habana_frameworks.torch.utils.experimental import detect_recompilation_auto_model

    model: Any = detect_recompilation_auto_model(Pair().to("hpu"), "Pair", waittime=0, csv_out=str(tmp_path / "out"))
    for size in (17, 17, 19):
        model(torch.ones(size, 3, device="hpu"))
    model.analyse_dynamicity()

    rows = table(tmp_path / "out_1.csv")
    names = ["Pair/first", "Pair/second", "Pair"]
    assert [(row["Step"], row["Recompiling modules"]) for row in rows] == [
        (step, each) for step in "02" for each in names
    ]
    assert {row["New in"] for row in rows} == {"True"}
    assert rows[0]["Class"] == "torch.nn.modules.linear.Linear"
    assert rows[0]["Location"].endswith("linear.py")
    assert {row["Module name"]: row["Recompile count"] for row in table(tmp_path / "out_2.csv")} == dict.fromkeys(
        names, "2"
    )


def test_in_lazy_mode_each_module_is_a_graph_of_its_own(run: Run, tmp_path: Path) -> None:
    program = f"""
    from habana_frameworks.torch.utils.experimental import detect_recompilation_auto_model
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU()).to("hpu")
    model = detect_recompilation_auto_model(model, waittime=0, csv_out={str(tmp_path / "out")!r})
    for size in (2, 2, 4):
        model(torch.ones(size, 3, device="hpu"))
    model.analyse_dynamicity()
    """
    run(program, PT_HPU_LAZY_MODE="1")

    counts = {row["Module name"]: row["Recompile count"] for row in table(tmp_path / "out_2.csv")}
    assert counts == {"Net": "2", "Net/0": "2", "Net/1": "2"}


def test_the_shapes_of_a_loader_are_counted(hpu: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    from habana_frameworks.torch.utils.experimental import data_dynamicity

    found = data_dynamicity([(torch.ones(size), {"n": torch.ones(size, 2)}) for size in (2, 3, 3)])

    assert found == {((2,), (("n", (2, 2)),)): 1, ((3,), (("n", (3, 2)),)): 2}
    assert "Number of unique shapes: 2" in capsys.readouterr().out


def test_a_loader_of_one_shape_keeps_the_first_that_is_frequent(hpu: ModuleType) -> None:
    from habana_frameworks.torch.utils.experimental import const_shape_dataloader

    batches = [torch.ones(size) for size in (2, 3, 3, 2, 3, 3)]
    few, most = const_shape_dataloader(batches, 2), const_shape_dataloader(batches, 10)

    assert [len(batch) for batch in few] == [3, 3]
    assert [len(batch) for batch in most] == [3, 3, 3, 3]
    assert isinstance(few, DataLoader)
    with pytest.raises(AssertionError, match="no batches"):
        const_shape_dataloader([], 2)
