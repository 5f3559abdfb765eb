"""A made-up vendor's backend on its simulation: the whole way from the variable to trained weights."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import Site

SCRIPT = """
    import json
    import sys
    from pathlib import Path

    import lightning.pytorch as pl
    import torch
    from lightning.pytorch.demos.boring_classes import BoringModel


    class Model(BoringModel):
        def on_train_end(self):
            weight = self.layer.weight
            told = {"device": str(weight.device), "weight": weight.tolist()}
            if weight.device.type == "flint":
                told["card"] = torch.flint.get_device_properties().card
            Path(f"{sys.argv[1]}-{self.global_rank}.json").write_text(json.dumps(told))


    if __name__ == "__main__":
        torch.manual_seed(1)
        trainer = pl.Trainer(
            accelerator=sys.argv[1],
            devices=2,
            max_steps=3,
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
        )
        trainer.fit(Model())
"""


@pytest.fixture(scope="module")
def site(install: Callable[..., Site]) -> Site:
    return install("flint")


def train(site: Site, folder: Path, accelerator: str) -> tuple[list[dict[str, Any]], str]:
    (folder / "script.py").write_text(textwrap.dedent(SCRIPT))
    ended = site.python(
        f"import os, runpy, sys; os.chdir({str(folder)!r}); sys.argv = ['script.py', {accelerator!r}];"
        " runpy.run_path('script.py', run_name='__main__')",
        NORTHBRIDGE_SIMULATE="flint",
        FLINT_SERVER=str(folder),
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads((folder / f"{accelerator}-{rank}.json").read_text()) for rank in (0, 1)], ended.stderr


def test_two_ranks_hold_a_card_each_and_train_as_the_cpu_does(site: Site, tmp_path: Path) -> None:
    flint, said = train(site, tmp_path, "flint")
    cpu, _ = train(site, tmp_path, "cpu")

    assert [rank["device"] for rank in flint] == ["flint:0", "flint:0"]
    assert [rank["card"] for rank in flint] == [0, 1]
    assert [rank["weight"] for rank in flint] == [rank["weight"] for rank in cpu]
    assert "simulated" in said


def test_held_card_is_named_with_its_holder(site: Site, tmp_path: Path) -> None:
    said = site.python(
        """
import os, subprocess, sys
import northbridge, torch
northbridge.load("flint")
torch.ones(1, device="flint")
child = "import northbridge, torch; northbridge.load('flint'); torch.ones(1, device='flint')"
ended = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True)
print(os.getpid(), ended.stderr.splitlines()[-1])
        """,
        NORTHBRIDGE_SIMULATE="flint",
        FLINT_SERVER=str(tmp_path),
    )

    pid, _, error = said.stdout.partition(" ")
    assert error.strip() == (
        f"RuntimeError: card 0 was asked for, but process {pid} holds it. Fix: wait for its end, or take another card"
    )
