"""Packages that ask ``torch.accelerator`` at their import, before there is a Trainer, change nothing of a run.

accelerate imports the Teco software by itself; the simulated Gaudi's comes with torch, and the sample runs on it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.engines import needs_engines, with_engines
from tests.scripts import run_forked, run_script

HIDDEN = ("NORTHBRIDGE_SIMULATE", "SHORT_PROCESS")
"""Variables of the tests; diffusers needs pillow, which a short process hides."""

SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch
NAME, FIRST = sys.argv[1], sys.argv[2] == "first"
asked = []
for word in ("current_accelerator", "is_available"):
    def ask(*given, _word=word, _own=getattr(torch.accelerator, word), **named):
        asked.append(_word)
        return _own(*given, **named)
    setattr(torch.accelerator, word, ask)
if FIRST:
    import accelerate, diffusers, monai, peft, transformers
by_packages = len(asked)
from lightning.pytorch import LightningModule, Trainer, seed_everything

class Module(LightningModule):
    def __init__(self):
        super().__init__()
        seed_everything(5)
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        self.losses = []
    def training_step(self, batch, index):
        loss = self.net(batch).square().mean()
        self.losses.append(loss.item())
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

rows = torch.randn(8, 8, generator=torch.Generator().manual_seed(3))
model = Module()
quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
trainer = Trainer(accelerator=NAME, devices=1, precision="bf16-mixed", max_steps=3, **quiet)
trainer.fit(model, torch.utils.data.DataLoader(rows, 2))
print(json.dumps({
    "asked": by_packages > 0, "losses": model.losses, "root": str(trainer.strategy.root_device),
    "accelerator": str(torch.accelerator.current_accelerator()), "count": torch.accelerator.device_count(),
    "dtype": str(torch.get_default_dtype()), "deterministic": torch.are_deterministic_algorithms_enabled(),
    "autocast": str(torch.get_autocast_dtype(NAME)),
}))
"""


@needs_engines
@pytest.mark.parametrize("chip", ["cpu_sim", "sdaa"])
def test_packages_imported_before_a_trainer_change_nothing(chip: str, tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    environ = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    if chip != "cpu_sim":
        environ["NORTHBRIDGE_SIMULATE"] = chip

    found = {}
    for order, run in (("first", run_script), ("never", run_forked)):
        ran = run(script, chip, order, folder=tmp_path, environ=with_engines(environ))
        assert ran.status == 0, ran.said
        found[order] = json.loads(ran.said.splitlines()[-1])

    assert found["first"].pop("asked")
    assert not found["never"].pop("asked")
    assert found["first"] == found["never"]
    assert found["first"]["root"] == f"{chip}:0"
