"""Beside lightning-Teco, and instead of it: its names, its README's examples, and what went wrong there."""

from __future__ import annotations

import importlib
import json
import os
import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.backends.simulation.predecessor import Predecessor
from tests.backends.simulation.processes import Run
from tests.core.conftest import Install, install as install
from tests.scripts import run_forked, run_python

import northbridge
import northbridge_sdaa
import northbridge_sdaa.fabric


class TestLightningTeco(Predecessor):
    predecessor = "lightning_teco"
    several = "dpp_sdaa"
    single = 'devices=1, strategy="single_sdaa"'
    homes: ClassVar = {"Trainer": northbridge_sdaa, "Fabric": northbridge_sdaa.fabric}
    exported = ("SDAAAccelerator", "SingleSDAAStrategy", "SDAADDPStrategy", "SDAACheckpointIO", "SDAAPrecisionPlugin")


def test_a_precision_is_taken_by_every_word_that_it_had() -> None:
    for meant, words in {
        "32-true": "32 32-true fp32 fp32-true",
        "bf16-mixed": "bf16 bf16-mixed",
        "16-mixed": "16-mixed fp16 fp16-mixed",
    }.items():
        for word in words.split():
            assert northbridge_sdaa.SDAAPrecisionPlugin(word).precision == meant, word
            assert northbridge_sdaa.SDAADeepSpeedPrecisionPlugin(word).precision == meant, word
            assert northbridge_sdaa.SDAAFSDPPrecision(word).precision == meant, word


@pytest.mark.parametrize("imported", ["northbridge_sdaa", "northbridge_sdaa.fabric"])
def test_import_of_a_name_makes_sdaa_a_device(run: Run, imported: str) -> None:
    first = f"import torch\nfrom {imported} import SDAADDPStrategy\n"
    said = run("print(torch.device('sdaa', 1), torch.sdaa.is_initialized())", first=first)

    assert said.splitlines()[-1] == "sdaa:1 False"


def test_names_are_there_if_the_backend_is_disabled(run: Run) -> None:
    first = "import torch\nfrom northbridge_sdaa import SDAADDPStrategy\n"

    assert run("print(SDAADDPStrategy.__name__)", first=first, NORTHBRIDGE_DISABLE="sdaa") == "SDAADDPStrategy\n"


@pytest.mark.shows("torch.profiler.ProfilerActivity.SDAA")
@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # Lightning's CombinedLoader asks torch's trees
@pytest.mark.usefixtures("sdaa")
def test_its_profiler_records_the_chip(package: str, tmp_path: Path) -> None:
    namespace: Any = importlib.import_module(package)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    profiler = northbridge_sdaa.SDAAProfiler(str(tmp_path), "profile", row_limit=3)
    limits = {"max_epochs": 1, "limit_train_batches": 6, "limit_val_batches": 0}
    trainer = namespace.Trainer(accelerator="sdaa", devices=1, profiler=profiler, **quiet, **limits)

    trainer.fit(importlib.import_module(f"{package}.demos.boring_classes").BoringModel())

    assert isinstance(trainer.profiler, namespace.profilers.PyTorchProfiler)
    said = (tmp_path / "fit-profile.txt").read_text()
    assert re.search(r"device events of sdaa\nname .*\n-+\nsdaa::", said)
    assert "[pl][module]" not in said  # record_module_names=False, as it was


@pytest.mark.usefixtures("sdaa")
def test_fp8_is_refused_with_another_precision() -> None:
    from lightning.pytorch import Trainer

    with pytest.raises(northbridge.UnsupportedError) as refusal:
        Trainer(accelerator="sdaa", devices=1, plugins=northbridge_sdaa.SDAAPrecisionPlugin("fp8"))

    assert str(refusal.value) == (
        "precision='transformer-engine': 'sdaa' has no float8: no public source has it there. Fix:"
        " precision='bf16-mixed'"
    )


# --- On the simulated cards


def run_ranks(folder: Path, script: str, status: int = 0) -> str:
    """Run a script, and return what its ranks printed."""
    (folder / "train.py").write_text(script)
    environ = {**os.environ, "NORTHBRIDGE_SIMULATE": "sdaa"}
    ran = run_forked(folder / "train.py", folder=folder, environ=environ)
    assert ran.status == status, ran.said
    return ran.said


ASKED = """
import json
import warnings
warnings.simplefilter("ignore")
from {package} import Trainer

from northbridge_sdaa import SDAAAccelerator, SDAACheckpointIO, SDAADDPStrategy, SDAAPrecisionPlugin
from northbridge_sdaa import SingleSDAAStrategy

quiet = dict(logger=False, enable_checkpointing=False)

def kind(trainer):
    return [str(trainer.strategy.root_device), trainer.num_devices, *(isinstance(each, name) for each, name in (
        (trainer.accelerator, SDAAAccelerator), (trainer.strategy, SDAADDPStrategy),
        (trainer.strategy, SingleSDAAStrategy), (trainer.strategy.checkpoint_io, SDAACheckpointIO)))]

told = [kind(trainer) for trainer in (
    Trainer(accelerator=SDAAAccelerator(), devices=1, **quiet),
    Trainer(accelerator=SDAAAccelerator(), devices=8, **quiet),
    Trainer(accelerator=SDAAAccelerator(), devices="auto", **quiet),
    Trainer(accelerator="sdaa", devices=1, **quiet),
    Trainer(accelerator="sdaa", devices=[3], **quiet),
    Trainer(accelerator="sdaa", devices=4, strategy=SDAADDPStrategy(find_unused_parameters=True), **quiet),
    Trainer(accelerator="sdaa", devices=4, strategy="ddp_sdaa_find_unused_parameters_false", **quiet),
    Trainer(devices=1, strategy=SingleSDAAStrategy(), plugins=[SDAAPrecisionPlugin("fp16")], **quiet),
)]
scaled = Trainer(accelerator="sdaa", devices=1, plugins=[SDAAPrecisionPlugin("fp16")], **quiet).precision_plugin
told.append([type(scaled).__name__, scaled.precision, str(scaled.scaler._device), scaled.scaler.is_enabled()])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    misspelt = Trainer(accelerator="sdaa", devices=2, strategy="dpp_sdaa", **quiet)
told.append([type(misspelt.strategy).__name__, *(str(each.message) for each in caught if "dpp_" in str(each.message))])
print("\\n" + json.dumps(told))
"""


@pytest.mark.parametrize("package", ["lightning", "pytorch_lightning"])
def test_readmes_examples_run_from_either_package(install: Install, package: str) -> None:
    child = install("lightning_teco").python(ASKED.format(package=package), NORTHBRIDGE_SIMULATE="sdaa")

    assert child.returncode == 0, child.stderr
    single, several = [True, False, True, True], [True, True, False, True]
    assert json.loads(child.stdout.splitlines()[-1]) == [
        ["sdaa:0", 1, *single],
        ["sdaa:0", 8, *several],
        ["sdaa:0", 32, *several],
        ["sdaa:0", 1, *single],
        ["sdaa:3", 1, *single],
        ["sdaa:0", 4, *several],
        ["sdaa:0", 4, *several],
        ["sdaa:0", 1, *single],
        ["MixedPrecision", "16-mixed", "sdaa", True],
        ["DDPStrategy", "strategy='dpp_sdaa' means 'ddp_sdaa'; write that, or 'ddp'"],
    ]


TRAIN = """
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.demos.boring_classes import BoringModel
from northbridge_sdaa import SDAAAccelerator

quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer = Trainer(accelerator=SDAAAccelerator(), devices=2, max_steps=2, **quiet)
trainer.fit(BoringModel())
trainer.print("trained on", trainer.strategy.root_device, "by", trainer.world_size)
"""


def test_a_script_with_an_instance_trains_on_the_chip(tmp_path: Path) -> None:
    assert "trained on sdaa:0 by 2\n" in run_ranks(tmp_path, TRAIN)


PATCHED = """
import json, warnings
warnings.simplefilter("ignore")
from lightning.pytorch import Trainer
import lightning_teco
lightning_teco.register()

def build(**arguments):
    try:
        trainer = Trainer(accelerator="sdaa", logger=False, enable_checkpointing=False, **arguments)
        return [type(trainer.strategy).__module__, type(trainer.strategy).__name__]
    except Exception as error:
        return [type(error).__name__, str(error)]

print("\\n" + json.dumps([build(devices=1), build(devices=2), build(devices=1, num_nodes=2)]))
"""


def test_what_it_patches_in_lightning_trains_no_model_apart(install: Install) -> None:
    child = install("lightning_teco").python(PATCHED, NORTHBRIDGE_SIMULATE="sdaa")

    assert child.returncode == 0, child.stderr
    one, two, nodes = json.loads(child.stdout.splitlines()[-1])
    assert one == ["northbridge.lightning.pytorch", "SingleDeviceStrategy"]
    assert two == ["northbridge.lightning.pytorch", "DDPStrategy"]
    assert nodes == [
        "DevicesError",
        ("strategy='single_sdaa' cannot span num_nodes=2. Fix: strategy='ddp'"),
    ]


WITHOUT_HARDWARE = """
from northbridge_sdaa import SDAAAccelerator, SDAADDPStrategy, SDAAPrecisionPlugin

strategy, precision = SDAADDPStrategy(), SDAAPrecisionPlugin("16-mixed")
print("available:", SDAAAccelerator.is_available())
"""


def test_its_names_can_be_imported_where_no_vendors_software_is() -> None:
    bare = {name: text for name, text in os.environ.items() if "NORTHBRIDGE_" not in name}

    ran = run_python("-c", WITHOUT_HARDWARE, environ=bare)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "available: False"


METRIC = """
import torch
from lightning.pytorch import LightningModule, Trainer

class Counts(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.register_buffer("mask", torch.ones(2) > 0)

    def training_step(self, batch, index):
        seen = torch.tensor(7 if self.global_rank else 2, device=self.device)
        self.print("mean of 2 and 7:", self.trainer.strategy.reduce(seen.clone(), reduce_op="mean").item())
        flags = self.all_gather(torch.tensor([True, self.global_rank == 1], device=self.device))
        self.print("flags:", flags.tolist())
        return self.layer(batch).sum()

    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.zeros(2, 1))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1.0)

from lightning.pytorch.strategies import DDPStrategy
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
strategy = DDPStrategy(broadcast_buffers={broadcast_buffers})
Trainer(accelerator="sdaa", devices=2, strategy=strategy, max_steps=1, **quiet).fit(Counts())
"""


def test_means_of_integers_and_flags_are_right(tmp_path: Path) -> None:
    said = run_ranks(tmp_path, METRIC.format(broadcast_buffers=False))

    assert re.findall(r"^(?:mean|flags).*$", said, flags=re.M) == [
        "mean of 2 and 7: 4",
        "flags: [[True, False], [True, True]]",
    ]


def test_buffer_unknown_to_tccl_is_refused(tmp_path: Path) -> None:
    assert (
        "CollectiveError: 'tccl' cannot send the buffer 'mask': it is bool. Fix: another dtype,"
        " or DDPStrategy(broadcast_buffers=False)"
    ) in run_ranks(tmp_path, METRIC.format(broadcast_buffers=True), status=1)


def test_what_is_asked_of_the_class_touches_no_device() -> None:
    answers: list[Any] = [
        northbridge_sdaa.SDAAAccelerator.is_available(),
        northbridge_sdaa.SDAAAccelerator.auto_device_count(),
        northbridge_sdaa.SDAAAccelerator.parse_devices("2"),
        northbridge_sdaa.SDAAAccelerator.get_device_name(),
    ]

    assert answers == [True, 32, [0, 1], "TECO_AICARD_01"]
    assert northbridge.get("sdaa").name == northbridge_sdaa.SDAAAccelerator.name() == "sdaa"
