"""Notebooks, executed as Jupyter executes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:(zmq|jupyter_client|nbclient|nbformat).*")

PREPARE = """
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

def train(**arguments):
    trainer = Trainer(
        accelerator="cpu_sim",
        max_steps=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        **arguments,
    )
    trainer.fit(BoringModel())
    return trainer
"""


def execute(folder: Path, *cells: str) -> str:
    """Return what the last cell printed, of a notebook that begins with PREPARE."""
    made: Any = nbformat.v4
    notebook = made.new_notebook(cells=[made.new_code_cell(source) for source in (PREPARE, *cells)])
    NotebookClient(
        notebook, timeout=150, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    outputs: Any = notebook.cells[-1].outputs
    return "".join(each.text for each in outputs if each.output_type == "stream" and each.name == "stdout")


def test_one_device_trains_again_and_again(tmp_path: Path) -> None:
    said = execute(tmp_path, "train(devices=1)", "print(train(devices=1).strategy.root_device)")

    assert said.endswith("cpu_sim:0\n")


@pytest.mark.parametrize("strategy", ["auto", "ddp_notebook"])
def test_several_devices_train_in_forked_processes(tmp_path: Path, strategy: str) -> None:
    said = execute(
        tmp_path,
        f"trainer = train(devices=2, strategy={strategy!r})",
        "print(trainer.strategy.launcher._start_method, trainer.world_size)",
    )

    assert said.endswith("fork 2\n")


def test_fork_after_the_chip_was_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError) as failure:
        execute(tmp_path, "train(devices=1)", "train(devices=2)")

    assert "UnsupportedError" in failure.value.traceback
    assert "has already used 'cpu_sim'" in failure.value.traceback
    assert "restart the kernel, or strategy='ddp'" in failure.value.traceback
