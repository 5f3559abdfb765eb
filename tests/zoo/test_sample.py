"""Packages that people train with: a sample of the zoo on the simulated Gaudi, imports before a Trainer, shards.

accelerate imports the Teco software by itself; the simulated Gaudi's comes with torch, and the sample runs on it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.engines import needs_engines, with_engines
from tests.scripts import run_forked, run_script
from tests.zoo.launch import REFERENCE, train_all
from tests.zoo.verdict import DEVICES, judge

SAMPLE = ("llama-lora", "recommender", "recommender-sparse")


@needs_engines
@pytest.mark.timeout(300)
def test_a_sample_of_the_zoo_gives_the_cpus_weights(tmp_path: Path) -> None:
    failed = train_all(SAMPLE, (REFERENCE, "hpu"), tmp_path)

    assert not failed, "\n".join(f"{launch}: {said}" for launch, said in failed.items())
    verdicts = [judge(name, "hpu", devices, tmp_path) for name in SAMPLE for devices in DEVICES]
    assert [str(verdict) for verdict in verdicts if verdict.is_wrong] == []
    assert [verdict.model for verdict in verdicts if verdict.rule] == ["recommender-sparse"] * 2


# --- Packages that ask torch.accelerator at their import, before there is a Trainer

HIDDEN = ("NORTHBRIDGE_SIMULATE", "SHORT_PROCESS")
"""Variables of the tests; diffusers needs pillow, which a short process hides."""

IMPORTS = """
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
    script.write_text(IMPORTS)
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


# --- A model of transformers that `northbridge.shard_blocks` shards, without a change of the model

SHARDED = """
import json, warnings
warnings.simplefilter("ignore")
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.fsdp import FSDPModule
from transformers import LlamaConfig, LlamaForCausalLM
import northbridge

class Model(LightningModule):
    def __init__(self, shards):
        super().__init__()
        self.shards, self.losses = shards, []
        torch.manual_seed(0)
        sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2)
        heads = dict(num_attention_heads=4, num_key_value_heads=2)
        self.net = LlamaForCausalLM(LlamaConfig(**sizes, **heads, tie_word_embeddings=True))
    def configure_model(self):
        if self.shards:
            northbridge.shard_blocks(self.net, mesh=self.device_mesh["data_parallel"])
    def training_step(self, batch, index):
        loss = self.net(input_ids=batch, labels=batch).loss
        self.losses.append(float(self.trainer.strategy.reduce(loss.detach(), reduce_op="mean")))
        return loss
    def on_train_end(self):
        self.sharded = [name for name, each in self.net.named_modules() if isinstance(each, FSDPModule)]
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-2)

rows = torch.randint(0, 64, (24, 10), generator=torch.Generator().manual_seed(1))
quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)

def fit(strategy, shards):
    model = Model(shards)
    trainer = Trainer(accelerator="cpu_sim", devices=2, strategy=strategy, max_epochs=1, **quiet)
    trainer.fit(model, torch.utils.data.DataLoader(rows, 4))
    return model, trainer

reference, trainer = fit("ddp", False)
sharded, _ = fit(ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=1), True)
if trainer.is_global_zero:
    print(json.dumps([sharded.sharded, sharded.losses, reference.losses]))
"""


@needs_engines
def test_a_llama_sharded_by_block_learns_as_with_ddp(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(SHARDED)
    environ = {name: value for name, value in os.environ.items() if name != "NORTHBRIDGE_SIMULATE"}

    ran = run_forked(script, folder=tmp_path, environ=with_engines(environ))

    assert ran.status == 0, ran.said
    sharded, losses, expected = json.loads(ran.said.splitlines()[-1])
    assert sharded == ["", "model.layers.0", "model.layers.1"]
    assert max(abs(one - other) for one, other in zip(losses, expected, strict=True)) < 1e-5
