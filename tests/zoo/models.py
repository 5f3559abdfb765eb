"""Models that people train, each small, from its package's configuration, with random weights and made-up batches.

The loss of a training step needs no random number on the chip: dropout is 0, and noise comes with the batch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from lightning.pytorch import LightningModule
from tests.engines import FOLDER
from torch import Tensor, nn


class Trained(LightningModule):
    """A net with a loss of its batches, trained by AdamW unless it says otherwise."""

    def __init__(self, net: nn.Module, loss: Callable[[nn.Module, Any], Tensor], optimizer: Any = None) -> None:
        super().__init__()
        self.net, self.loss = net, loss
        self.optimizer = optimizer or (lambda parameters: torch.optim.AdamW(parameters, 1e-3))
        self.losses: list[Tensor] = []

    def training_step(self, batch: Any) -> Tensor:
        loss = self.loss(self.net, batch)
        self.losses.append(loss.detach())
        return loss

    def configure_optimizers(self) -> Any:
        return self.optimizer([each for each in self.parameters() if each.requires_grad])


@dataclass(frozen=True)
class Entry:
    """One model: the packages that it is made of, what makes it, and what makes a row of its data."""

    title: str
    packages: tuple[str, ...]
    make: Callable[[], Trained]
    row: Callable[[torch.Generator], Any]
    clip: float | None = 1.0
    """The largest norm of its gradients. torch does not clip sparse ones."""

    precision: Any = "32-true"


def _import(name: str) -> Any:
    return import_module(name)  # by its name: no type checker sees `.engines`


def _llama() -> Trained:
    peft, transformers = _import("peft"), _import("transformers")
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    config = transformers.LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2)
    plain = transformers.LlamaForCausalLM(config)
    plain.gradient_checkpointing_enable()
    lora = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], lora_dropout=0.0)
    net = peft.get_peft_model(plain, lora)
    return Trained(net, lambda net, batch: net(input_ids=batch, labels=batch).loss)


def _bert() -> Trained:
    transformers = _import("transformers")
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = transformers.BertConfig(**sizes, **dropout, num_attention_heads=4, num_labels=3)
    net = transformers.BertForSequenceClassification(config)
    return Trained(net, lambda net, batch: net(**batch).loss)


def _sentence(generator: torch.Generator) -> dict[str, Tensor]:
    length = int(torch.randint(3, 12, (), generator=generator))
    words = torch.randint(1, 64, (12,), generator=generator)
    mask = torch.arange(12) < length
    label = torch.randint(3, (), generator=generator)
    return {"input_ids": words * mask, "attention_mask": mask.long(), "labels": label}


def _vit() -> Trained:
    net = _import("timm").create_model(
        "vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=48, depth=2, num_heads=3, num_classes=10
    )
    return Trained(net, lambda net, batch: nn.functional.cross_entropy(net(batch[0]), batch[1]))


def _picture(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return torch.randn(3, 32, 32, generator=generator), torch.randint(10, (), generator=generator)


def _diffusion() -> Trained:
    diffusers = _import("diffusers")
    net = diffusers.UNet2DModel(
        sample_size=16,
        block_out_channels=(16, 32),
        layers_per_block=1,
        norm_num_groups=4,
        attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    scheduler = diffusers.DDPMScheduler(num_train_timesteps=100)

    def loss(net: nn.Module, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        pictures, noise, steps = batch
        noisy = scheduler.add_noise(pictures, noise, steps)
        return nn.functional.mse_loss(net(noisy, steps).sample, noise)

    return Trained(net, loss)


def _noise(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    pictures, noise = torch.randn(2, 3, 16, 16, generator=generator)
    return pictures, noise, torch.randint(100, (), generator=generator)


def _segmentation() -> Trained:
    losses, nets = _import("monai.losses"), _import("monai.networks.nets")
    sizes = {"in_channels": 1, "out_channels": 2, "channels": (8, 16, 32), "strides": (2, 2), "num_res_units": 1}
    net = nets.UNet(spatial_dims=3, **sizes)
    dice = losses.DiceCELoss(to_onehot_y=True, softmax=True)
    return Trained(net, lambda net, batch: dice(net(batch[0]), batch[1]))


def _volume(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    volume = torch.randn(1, 16, 16, 16, generator=generator)
    return volume, (volume > 0.5).float()


class Recommender(nn.Module):
    """Users and the items that they saw, as embeddings."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.users = nn.Embedding(100, 8, sparse=sparse)
        self.items = nn.EmbeddingBag(200, 8, mode="mean", sparse=sparse)
        self.head = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, user: Tensor, items: Tensor) -> Tensor:
        rated: Tensor = self.head(torch.cat((self.users(user), self.items(items)), dim=1))
        return rated.flatten()


def _recommender(sparse: bool = False) -> Trained:
    return Trained(
        Recommender(sparse),
        lambda net, batch: nn.functional.mse_loss(net(batch[0], batch[1]), batch[2]),
        lambda parameters: torch.optim.SGD(parameters, 0.1),
    )


def _sparse_recommender() -> Trained:
    return _recommender(sparse=True)


def _rating(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    items = torch.randint(200, (5,), generator=generator)
    return torch.randint(100, (), generator=generator), items, torch.rand((), generator=generator)


def _words(generator: torch.Generator) -> Tensor:
    return torch.randint(64, (12,), generator=generator)


ZOO = {
    "llama-lora": Entry("a Llama with LoRA and activation checkpointing", ("transformers", "peft"), _llama, _words),
    "llama-bf16": Entry(
        "the same with precision='bf16-mixed'", ("transformers", "peft"), _llama, _words, precision="bf16-mixed"
    ),
    "bert": Entry("BERT with padded sentences", ("transformers",), _bert, _sentence),
    "vit": Entry("a vision transformer", ("timm",), _vit, _picture),
    "unet": Entry("a diffusion UNet with attention", ("diffusers",), _diffusion, _noise),
    "segmentation": Entry("a segmentation net of volumes", ("monai",), _segmentation, _volume),
    "recommender": Entry("a recommender", (), _recommender, _rating),
    "recommender-sparse": Entry("the same with sparse embeddings", (), _sparse_recommender, _rating, clip=None),
}


def declare_torchvision() -> None:
    """Make torchvision importable without its operators, which its wheel has for CUDA alone."""
    operators: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    operators.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    operators.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    _KEPT.append(operators)
    sys.path.append(str(FOLDER / "vision"))


_KEPT: list[Any] = []
"""Declarations, which end with their object."""
