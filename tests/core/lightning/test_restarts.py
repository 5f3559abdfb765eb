"""A rank that is killed under torchrun: all of them are started again, and end where an undisturbed run does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.scripts import run_python

USER = """
import os, signal, sys, time
from pathlib import Path
import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

killed = int(sys.argv[1])

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 2))

    def training_step(self, batch, index):
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and self.global_step == 5 and self.global_rank == killed:
            os.write(1, f"killed {time.time()}\\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)
        if self.global_rank == 0:
            os.write(1, f"step {self.global_step} {time.time()}\\n".encode())
        return self.net(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-2)

seed_everything(1)
last = Path("checkpoints/last.ckpt")
trainer = Trainer(
    accelerator="cpu_sim",
    devices=2,
    max_epochs=4,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[ModelCheckpoint(dirpath="checkpoints", every_n_train_steps=4, save_last=True)],
)
model = Model()
data = TensorDataset(torch.arange(256.0).reshape(32, 8) / 256)
trainer.fit(model, DataLoader(data, batch_size=4, shuffle=True), ckpt_path=last if last.exists() else None)
if trainer.is_global_zero:
    torch.save({name: each.cpu() for name, each in model.state_dict().items()}, "weights.pt")
"""


def train(folder: Path, killed: int) -> tuple[dict[str, torch.Tensor], list[list[str]]]:
    """Return the weights, and what the ranks printed about steps."""
    folder.mkdir()
    (folder / "train.py").write_text(USER)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    run = run_python(*torchrun, "train.py", str(killed), folder=folder)
    assert run.returncode == 0, run.stderr
    weights: dict[str, torch.Tensor] = torch.load(folder / "weights.pt", weights_only=True)
    words = [line.split() for line in run.stdout.splitlines()]
    return weights, [each for each in words if each and each[0] in ("killed", "step")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    return train(tmp_path_factory.mktemp("undisturbed") / "run", killed=-1)[0]


@pytest.mark.parametrize("killed", [0, 1])
def test_it_ends_as_an_undisturbed_run(tmp_path: Path, undisturbed: dict[str, torch.Tensor], killed: int) -> None:
    weights, told = train(tmp_path / "run", killed)

    for name, tensor in undisturbed.items():
        assert torch.equal(weights[name], tensor), name
    kinds = [each[0] for each in told]
    moment = float(told[kinds.index("killed")][1])
    _, step, began = next(
        each for each in told[kinds.index("killed") :] if each[0] == "step" and float(each[2]) > moment + 0.5
    )
    assert step == "4"
    assert float(began) - moment <= 30
