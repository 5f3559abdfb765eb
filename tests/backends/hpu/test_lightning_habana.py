"""Beside the archived package, and instead of it: its names, and what became of them."""

from __future__ import annotations

import json
import os
import pickle
import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from tests.backends.simulation.predecessor import Predecessor
from tests.core.conftest import Install, install as install
from tests.scripts import run_script

import northbridge_hpu
import northbridge_hpu.fabric
from northbridge.errors import ArgumentsError, ArgumentValueError
from northbridge.lightning.vendor_names import arguments


class TestLightningHabana(Predecessor):
    predecessor = "lightning_habana"
    several = "hpu_parallel"
    single = 'strategy="hpu_single"'
    homes: ClassVar = {"Trainer": northbridge_hpu, "Fabric": northbridge_hpu.fabric}
    exported = ("HPUAccelerator", "SingleHPUStrategy", "HPUParallelStrategy", "HPUDDPStrategy", "HPUCheckpointIO")
    unsupported: ClassVar = {
        "HPUFSDPStrategy": ("fsdp", "write strategy='hpu_ddp'"),
        "HPUFSDPPrecision": ("fsdp", "write strategy='hpu_ddp' and precision='bf16-mixed'"),
        "HPUDeepSpeedStrategy": ("deepspeed", "write strategy='hpu_ddp'"),
        "HPUDeepSpeedPrecisionPlugin": ("deepspeed", "write strategy='hpu_ddp' and precision='bf16-mixed'"),
    }


@pytest.fixture(autouse=True)
def nothing_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "_warned", set())


def test_the_precision_is_called_otherwise_for_a_fabric() -> None:
    assert isinstance(northbridge_hpu.HPUPrecisionPlugin, type)
    assert isinstance(northbridge_hpu.fabric.HPUPrecision, type)


@pytest.mark.parametrize("word", ["32", "32-true", "bf16", "bf16-mixed", "16-mixed"])
def test_a_precision_is_taken_by_every_word_that_it_had(word: str) -> None:
    meant = {"32": "32-true", "bf16": "bf16-mixed"}.get(word, word)

    assert northbridge_hpu.HPUPrecisionPlugin(word).precision == meant
    assert northbridge_hpu.fabric.HPUPrecision(precision=word).precision == meant


def test_precision_knows_its_device() -> None:
    assert northbridge_hpu.HPUPrecisionPlugin("bf16-mixed", device="hpu").device == "hpu"
    with pytest.raises(ArgumentValueError, match=r"HPUPrecisionPlugin\(device='cuda'\) is for 'hpu'"):
        northbridge_hpu.HPUPrecisionPlugin("bf16-mixed", "cuda")


def test_names_answer_before_a_trainer_has_them() -> None:
    """lightning-Habana's own tests ask these questions."""
    strategy = northbridge_hpu.HPUDDPStrategy(parallel_devices=[torch.device("hpu")] * 2, bucket_cap_mb=100)

    assert northbridge_hpu.SingleHPUStrategy().root_device == strategy.root_device == torch.device("hpu")
    assert northbridge_hpu.HPUDDPStrategy().process_group_backend == "hccl"
    assert len(northbridge_hpu.HPUDDPStrategy().parallel_devices) == northbridge_hpu.HPUAccelerator.auto_device_count()
    assert strategy._get_process_group_backend() == "hccl"
    assert isinstance(strategy.checkpoint_io, northbridge_hpu.HPUCheckpointIO)
    with pytest.raises(ValueError, match="root device is 'cpu'"):
        northbridge_hpu.HPUAccelerator().setup_device(torch.device("cpu"))


def test_an_argument_that_never_was_is_refused() -> None:
    with pytest.raises(
        ArgumentsError, match=r"^HPUDDPStrategy\(\) has no argument find_unused_parameter=; did you mean find_"
    ):
        northbridge_hpu.HPUDDPStrategy(find_unused_parameter=True)


def test_a_strategy_survives_pickling_before_a_trainer_has_it() -> None:
    strategy = pickle.loads(pickle.dumps(northbridge_hpu.HPUDDPStrategy(bucket_cap_mb=100)))

    assert repr(strategy) == "HPUDDPStrategy(bucket_cap_mb=100)"


# --- On the simulated Gaudi

ASKED = """
import json, os
import torch
from lightning.pytorch import Trainer
from lightning.fabric import Fabric

from northbridge_hpu import HPU_AVAILABLE, HPUAccelerator, HPUDDPStrategy, HPUParallelStrategy, HPUPrecisionPlugin
from northbridge_hpu import HPUCheckpointIO, SingleHPUStrategy

answers = [HPU_AVAILABLE, HPUAccelerator.is_available(), HPUAccelerator.auto_device_count(),
           HPUAccelerator.parse_devices("2"), list(map(str, HPUAccelerator.get_parallel_devices(2))),
           HPUAccelerator.get_device_name(), HPUAccelerator.is_lazy()]
held = [name for name in os.listdir("/proc/self/fd") if "accel/accel" in os.path.realpath(f"/proc/self/fd/{name}")]
quiet = dict(logger=False, enable_checkpointing=False, precision="bf16-mixed")
named = Trainer(accelerator=HPUAccelerator(), devices=2, strategy=HPUParallelStrategy(), **quiet)
plain = Trainer(accelerator="hpu", devices=2, strategy="ddp", **quiet)
single = Trainer(devices=1, strategy="hpu_single", **quiet)
known = [[isinstance(trainer.accelerator, HPUAccelerator), isinstance(trainer.strategy, HPUDDPStrategy),
          isinstance(trainer.strategy, HPUParallelStrategy), isinstance(trainer.strategy, SingleHPUStrategy),
          isinstance(trainer.strategy.checkpoint_io, HPUCheckpointIO),
          isinstance(trainer.precision_plugin, HPUPrecisionPlugin)] for trainer in (named, plain, single)]
print("\\n" + json.dumps([answers, held, known]))
"""


@pytest.fixture(scope="module")
def asked(install: Install) -> Any:
    environ = {"NORTHBRIDGE_SIMULATE": "hpu", "NORTHBRIDGE_HPU_SIM_RELEASE": "1.22"}
    child = install("lightning_habana").python(ASKED, **environ)
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout.splitlines()[-1])


def test_what_the_accelerators_class_is_asked_takes_no_card(asked: Any) -> None:
    answers, held, _ = asked

    assert answers == [True, True, 8, [0, 1], ["hpu:0", "hpu:1"], "GAUDI2", False]
    assert held == []


def test_a_run_is_known_by_its_names_however_it_was_asked_for(asked: Any) -> None:
    several = [True, True, True, False, True, True]

    assert asked[2] == [several, several, [True, False, False, True, True, True]]


AVERAGED = """
import torch
from lightning.pytorch import LightningModule, Trainer
from northbridge_hpu import HPUParallelStrategy

class OneWeight(LightningModule):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch, index):
        return (self.weight * (1.0 if self.global_rank == 0 else 3.0)).sum()

    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.zeros(2))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1.0)

model = OneWeight()
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer = Trainer(accelerator="hpu", devices=2, strategy={strategy}, max_steps=1, **quiet)
trainer.fit(model)
print("rank %d: %g\\n" % (trainer.global_rank, model.weight.item()), end="", flush=True)
"""


@pytest.mark.parametrize("strategy", ['"hpu_parallel"', "HPUParallelStrategy()", '"auto"'])
def test_gradients_are_averaged(tmp_path: Path, strategy: str) -> None:
    (tmp_path / "train.py").write_text(AVERAGED.format(strategy=strategy))

    ran = run_script(tmp_path / "train.py", folder=tmp_path, environ={**os.environ, "NORTHBRIDGE_SIMULATE": "hpu"})

    assert ran.status == 0, ran.said
    assert sorted(re.findall(r"rank \d: -?[\d.]+", ran.said)) == ["rank 0: -2", "rank 1: -2"]
