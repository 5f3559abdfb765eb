"""A model of transformers that ``northbridge.shard_blocks`` shards, without a change of the model."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.engines import needs_engines, with_engines
from tests.scripts import run_forked

SCRIPT = """
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
    script.write_text(SCRIPT)
    environ = {name: value for name, value in os.environ.items() if name != "NORTHBRIDGE_SIMULATE"}

    ran = run_forked(script, folder=tmp_path, environ=with_engines(environ))

    assert ran.status == 0, ran.said
    sharded, losses, expected = json.loads(ran.said.splitlines()[-1])
    assert sharded == ["", "model.layers.0", "model.layers.1"]
    assert max(abs(one - other) for one, other in zip(losses, expected, strict=True)) < 1e-5
