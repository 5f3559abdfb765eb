"""Beside lightning-Teco, and instead of it: its names, its README's examples, and what went wrong there."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.profilers import PyTorchProfiler
from tests.backends.simulation.processes import Run
from tests.core.conftest import Install, install as install
from tests.scripts import run_forked, run_python

import northbridge
import northbridge_sdaa
import northbridge_sdaa.fabric

NAMES = ("SDAAAccelerator", "SingleSDAAStrategy", "SDAADDPStrategy", "SDAACheckpointIO", "SDAAPrecisionPlugin")


@pytest.mark.parametrize("home", [northbridge_sdaa, northbridge_sdaa.fabric])
def test_its_names_are_there_and_no_others(home: Any) -> None:
    assert all(isinstance(getattr(home, name), type) for name in NAMES)
    with pytest.raises(AttributeError, match="has no attribute 'Whatever'"):
        _ = home.Whatever


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
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # Lightning's CombinedLoader asks torch's trees
@pytest.mark.usefixtures("sdaa")
def test_its_profiler_records_the_chip(tmp_path: Path) -> None:
    quiet: Any = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    profiler: Any = northbridge_sdaa.SDAAProfiler(str(tmp_path), "profile", row_limit=3)
    trainer: Any = Trainer(accelerator="sdaa", devices=1, profiler=profiler, max_steps=6, limit_val_batches=0, **quiet)

    trainer.fit(BoringModel())

    assert isinstance(trainer.profiler, PyTorchProfiler)
    said = (tmp_path / "fit-profile.txt").read_text()
    assert re.search(r"device events of sdaa\nname .*\n-+\nsdaa::", said)
    assert "[pl][module]" not in said  # record_module_names=False, as it was


@pytest.mark.usefixtures("sdaa")
def test_what_its_names_cannot_do_is_refused() -> None:
    with pytest.raises(northbridge.UnsupportedError) as refusal:
        Trainer(accelerator="sdaa", devices=1, plugins=northbridge_sdaa.SDAAPrecisionPlugin("fp8"))
    assert str(refusal.value) == (
        "precision='transformer-engine': 'sdaa' has no float8: no public source has it there. Fix:"
        " precision='bf16-mixed'"
    )
    with pytest.raises(northbridge.DevicesError) as spans:
        Trainer(accelerator="sdaa", devices=1, num_nodes=2, strategy="single_sdaa")
    assert str(spans.value) == "strategy='single_sdaa' cannot span num_nodes=2. Fix: strategy='ddp'"


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
import lightning_teco
lightning_teco.register()
from lightning import Trainer

from northbridge_sdaa import SDAAAccelerator, SDAACheckpointIO, SDAADDPStrategy, SDAAPrecisionPlugin
from northbridge_sdaa import SingleSDAAStrategy

quiet = dict(logger=False, enable_checkpointing=False)

def kind(trainer):
    return [str(trainer.strategy.root_device), trainer.num_devices, *(isinstance(each, name) for each, name in (
        (trainer.accelerator, SDAAAccelerator), (trainer.strategy, SDAADDPStrategy),
        (trainer.strategy, SingleSDAAStrategy), (trainer.strategy.checkpoint_io, SDAACheckpointIO)))]

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    misspelt = Trainer(accelerator="sdaa", devices=2, strategy="dpp_sdaa", **quiet)
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
said = [str(each.message) for each in caught]
told.append([type(misspelt.strategy).__name__, *(each for each in said if "dpp_" in each or "lightning_teco" in each)])
print("\\n" + json.dumps(told))
"""


SAID = (
    f"accelerator='sdaa' is served by backend 'sdaa' (northbridge-sdaa {northbridge.installed()[0].version});"
    " 'lightning_teco' is installed too, and is not used: pip uninstall lightning-teco"
)


def test_readmes_examples_run_beside_it(install: Install) -> None:
    child = install("lightning_teco").python(ASKED, NORTHBRIDGE_SIMULATE="sdaa")

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
        ["DDPStrategy", "strategy='dpp_sdaa' means 'ddp_sdaa'; write that, or 'ddp'", SAID],
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


MASKED = """
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

model = BoringModel()
model.register_buffer("mask", torch.ones(2) > 0)
Trainer(accelerator="sdaa", devices=2, max_steps=1, logger=False, enable_checkpointing=False).fit(model)
"""


def test_buffer_unknown_to_tccl_is_refused(tmp_path: Path) -> None:
    assert (
        "CollectiveError: 'tccl' cannot send the buffer 'mask': it is bool. Fix: another dtype,"
        " or DDPStrategy(broadcast_buffers=False)"
    ) in run_ranks(tmp_path, MASKED, status=1)
