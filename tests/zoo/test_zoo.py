"""Packages that people train with: a sample of the zoo on the simulated Gaudi, imports before a Trainer, shards.

accelerate imports the Teco software by itself; the simulated Gaudi's comes with torch, and the sample runs on it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.docs.page import ROOT
from tests.engines import needs_engines, with_engines
from tests.scripts import run_forked, run_script
from tests.zoo.__main__ import train_all
from tests.zoo.verdict import DEVICES, EQUAL, REFERENCE, RULES, Rule, Verdict, judge, unused_rules

SAMPLE = ("llama-lora", "recommender", "recommender-sparse")
HIDDEN = ("NORTHBRIDGE_SIMULATE", "SHORT_PROCESS")
"""Variables of the tests; diffusers needs pillow, which a short process hides."""


@needs_engines
@pytest.mark.timeout(300)
def test_a_sample_of_the_zoo_gives_the_cpus_weights(tmp_path: Path) -> None:
    failed = train_all(SAMPLE, (REFERENCE, "hpu"), tmp_path)

    assert not failed, "\n".join(f"{launch}: {said}" for launch, said in failed.items())
    verdicts = [judge(name, "hpu", devices, tmp_path) for name in SAMPLE for devices in DEVICES]
    assert [str(verdict) for verdict in verdicts if verdict.is_wrong] == []
    assert [verdict.model for verdict in verdicts if verdict.rule] == ["recommender-sparse"] * 2


BEGIN = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch
quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
"""
IMPORTS = """
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
from lightning.pytorch import Trainer, seed_everything
from tests.zoo.models import Trained

seed_everything(5)
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
rows = torch.randn(8, 8, generator=torch.Generator().manual_seed(3))
model = Trained(net, lambda net, batch: net(batch).square().mean())
trainer = Trainer(accelerator=NAME, devices=1, precision="bf16-mixed", max_steps=3, **quiet)
trainer.fit(model, torch.utils.data.DataLoader(rows, 2))
print(json.dumps({
    "asked": by_packages > 0, "losses": [float(each) for each in model.losses],
    "root": str(trainer.strategy.root_device),
    "accelerator": str(torch.accelerator.current_accelerator()), "count": torch.accelerator.device_count(),
    "dtype": str(torch.get_default_dtype()), "deterministic": torch.are_deterministic_algorithms_enabled(),
    "autocast": str(torch.get_autocast_dtype(NAME)),
}))
"""


@needs_engines
@pytest.mark.parametrize("chip", ["cpu_sim", "sdaa"])
def test_packages_imported_before_a_trainer_change_nothing(chip: str, tmp_path: Path) -> None:
    """They ask torch.accelerator at their import."""
    found = {
        order: tell(tmp_path, IMPORTS, chip, order, afresh=order == "first", hidden=HIDDEN) for order in ("first", "no")
    }

    assert found["first"].pop("asked")
    assert not found["no"].pop("asked")
    assert found["first"] == found["no"]
    assert found["first"]["root"] == f"{chip}:0"


def tell(folder: Path, script: str, *arguments: str, afresh: bool, hidden: tuple[str, ...]) -> Any:
    """Return what the last line of a script says."""
    environ = {name: value for name, value in os.environ.items() if name not in hidden}
    if arguments and arguments[0] != "cpu_sim":
        environ["NORTHBRIDGE_SIMULATE"] = arguments[0]
    environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [environ.get("PYTHONPATH")])])
    file = folder / "run.py"
    file.write_text(BEGIN + script)
    run = run_script if afresh else run_forked
    ran = run(file, *arguments, folder=folder, environ=with_engines(environ))
    assert ran.status == 0, ran.said
    return json.loads(ran.said.splitlines()[-1])


SHARDED = """
from lightning.pytorch import Trainer
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.fsdp import FSDPModule
from transformers import LlamaConfig, LlamaForCausalLM
import northbridge
from tests.zoo.models import Trained

class Model(Trained):
    shards = False
    def configure_model(self):
        if self.shards:
            northbridge.shard_blocks(self.net, mesh=self.device_mesh["data_parallel"])
    def on_train_batch_end(self, *_):
        self.losses[-1] = float(self.trainer.strategy.reduce(self.losses[-1], reduce_op="mean"))
    def on_train_end(self):
        self.sharded = [name for name, each in self.net.named_modules() if isinstance(each, FSDPModule)]

rows = torch.randint(0, 64, (24, 10), generator=torch.Generator().manual_seed(1))

def fit(strategy, shards):
    torch.manual_seed(0)
    sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2)
    heads = dict(num_attention_heads=4, num_key_value_heads=2)
    net = LlamaForCausalLM(LlamaConfig(**sizes, **heads, tie_word_embeddings=True))
    model = Model(net, lambda net, batch: net(input_ids=batch, labels=batch).loss)
    model.shards = shards
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
    sharded, losses, expected = tell(tmp_path, SHARDED, afresh=False, hidden=HIDDEN[:1])

    assert sharded == ["", "model.layers.0", "model.layers.1"]
    assert max(abs(one - other) for one, other in zip(losses, expected, strict=True)) < 1e-5


# --- The verdict

RULE = Rule("tanh", "its table has 8 entries", chips=("hpu",), models=("net",), within=1e-2)
REFUSAL = Rule("a sort", "it has none", chips=("hpu",), models=("net",), refused="has no sort")
CPUS: dict[str, Any] = {
    "losses": torch.tensor([2.0, 1.0]),
    "weights": {"net.weight": torch.ones(2), "net.bias": torch.zeros(1)},
}
LAST_BIT = {"net.weight": torch.ones(2).nextafter(torch.tensor(2.0)), "net.bias": torch.zeros(1)}


@pytest.mark.parametrize(
    ("found", "chip", "rules", "wrong", "said"),
    [
        (CPUS, "hpu", (RULE,), False, EQUAL),
        ({**CPUS, "weights": LAST_BIT}, "hpu", (), True, "differs: losses by 0, weights by 1e-07 (net.weight first)"),
        ({**CPUS, "losses": CPUS["losses"] + 1e-3}, "hpu", (RULE,), False, "differs: losses by "),
        ({**CPUS, "losses": CPUS["losses"] + 1e-1}, "hpu", (RULE,), True, "differs: losses by "),
        ({**CPUS, "losses": CPUS["losses"] + torch.nan}, "hpu", (RULE,), True, "differs: losses by inf"),
        ({**CPUS, "losses": CPUS["losses"] + 1e-3}, "sdaa", (RULE,), True, "differs: losses by "),
        ({"refused": "'hpu' has no sort"}, "hpu", (RULE, REFUSAL), False, "refused: 'hpu' has no sort"),
        ({"refused": "'hpu' has no weights"}, "hpu", (RULE, REFUSAL), True, "refused: 'hpu' has no weights"),
        (None, "hpu", (RULE, REFUSAL), True, "it did not end"),
    ],
    ids=["equal", "a last bit", "close", "far", "NaN", "another chip", "refused", "refused otherwise", "no result"],
)
def test_a_difference_needs_a_rule(
    found: dict[str, Any] | None, chip: str, rules: tuple[Rule, ...], wrong: bool, said: str, tmp_path: Path
) -> None:
    for accelerator, each in {REFERENCE: CPUS, chip: found}.items():
        (tmp_path / accelerator).mkdir()
        if each is not None:
            torch.save(each, tmp_path / accelerator / "net-1-0.pt")

    verdict = judge("net", chip, 1, tmp_path, rules)

    assert (verdict.is_wrong, verdict.rule is None) == (wrong, wrong or said == EQUAL)
    assert str(verdict).startswith(f"net on {chip} with 1: {said}")


def test_a_rule_that_no_training_needs_is_a_complaint() -> None:
    needed = Verdict("net", "hpu", 1, "differs", RULE)

    assert unused_rules([needed], (RULE,)) == []
    assert unused_rules([needed], (RULE, REFUSAL)) == ["the rule for a sort stands, and no training needs it"]
    assert unused_rules([needed], (RULE,) * 4) == ["4 rules are too many: three at most"]
    assert len(RULES) <= 3
