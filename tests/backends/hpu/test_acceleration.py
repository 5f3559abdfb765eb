"""What the vendor's software offers beyond torch's operators, in a Trainer and a Fabric."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from lightning.fabric import Fabric
from lightning.pytorch import LightningModule, Trainer
from tests.backends.simulation.processes import Run
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

import northbridge
from northbridge_hpu.acceleration import HPUAcceleration

pytestmark = [
    pytest.mark.usefixtures("hpu"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),  # Lightning's, of torch
]

OPTIMIZERS = "habana_frameworks.torch.hpex.optimizers"
NORMALIZATION = "habana_frameworks.torch.hpex.normalization"


@pytest.fixture(autouse=True)
def environment_kept() -> Iterator[None]:
    """Keep the variables that choose this process's card from later tests."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


class Layer(LightningModule):
    def __init__(self, make: Callable[[Any], Optimizer]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 2)
        self.make = make

    def training_step(self, batch: Tensor, _index: int) -> Tensor:
        return 100 * self.layer(batch).square().sum()  # type: ignore[no-any-return]

    def configure_optimizers(self) -> Optimizer:
        return self.make(self.parameters())


def fit(make: Callable[[Any], Optimizer], steps: int = 2, **options: Any) -> Trainer:
    batches: Any = torch.utils.data.DataLoader(torch.ones(4, 3), batch_size=2)  # type: ignore[arg-type]  # a tensor
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(accelerator="hpu", devices=1, max_steps=steps, **{**quiet, **options})
    trainer.fit(Layer(make), batches)
    return trainer


def weights(trainer: Trainer) -> Tensor:
    return torch.cat([each.detach().double().cpu().flatten() for each in trainer.lightning_module.parameters()])


@pytest.fixture
def clips(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The limits for which the vendor's clip is built."""
    from habana_frameworks.torch.hpex import normalization

    built: list[float] = []

    class Noted(normalization.FusedClipNorm):  # type: ignore[misc]  # a stand-in
        def __init__(self, parameters: Any, max_norm: float) -> None:
            built.append(max_norm)
            super().__init__(parameters, max_norm)

    monkeypatch.setattr(normalization, "FusedClipNorm", Noted)
    monkeypatch.setattr(northbridge.get("hpu").acceleration, "_clips", {})  # of an earlier test
    return built


def sgd(parameters: Any) -> Optimizer:
    return SGD(parameters, lr=0.01)


@pytest.mark.parametrize("precision", ["32-true", "16-mixed"])
def test_gradient_clip_val_uses_the_vendors_clip(clips: list[float], precision: Any) -> None:
    clipped = fit(sgd, gradient_clip_val=0.25, precision=precision)

    before = torch.cat([each.detach().double().flatten() for each in Layer(sgd).parameters()])
    assert clips == [0.25]  # built once, not for each step
    assert (weights(clipped) - before).norm() <= 2 * 0.25 * 0.01 + 1e-6


def test_a_release_without_the_clip_uses_torch_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, NORMALIZATION, None)
    weight = nn.Parameter(torch.zeros(2, device="hpu"))
    weight.grad = torch.tensor([3.0, 4.0], device="hpu")

    norm = HPUAcceleration().clip_grad_norm([weight], 1.0)

    assert norm.item() == 5
    assert weight.grad.tolist() == pytest.approx([0.6, 0.8])
    (noted,) = [each for each in northbridge.record() if each.outcome == "torch clips gradients"]
    assert noted.subject == "hpu"
    assert noted.reason.startswith("the vendor's software has no clip: ")


def test_gradients_of_several_dtypes_are_clipped_by_torch(clips: list[float]) -> None:
    given = [nn.Parameter(torch.zeros(1, dtype=dtype, device="hpu")) for dtype in (torch.bfloat16, torch.float32)]
    for each, gradient in zip(given, (3.0, 4.0), strict=True):
        each.grad = torch.full_like(each, gradient)

    assert HPUAcceleration().clip_grad_norm(given, 1.0).item() == 5
    assert clips == []


@pytest.mark.shows("torch's fused optimizers have no kernel for hpu")
def test_torch_fused_names_the_vendor_class() -> None:
    fabric, layer = Fabric(accelerator="hpu", devices=1), nn.Linear(1, 1)

    with pytest.raises(northbridge.UnsupportedError) as refused:
        fabric.setup(layer, AdamW(layer.parameters(), lr=0.1, fused=True))
    with pytest.raises(northbridge.UnsupportedError, match="import FusedSGD; FusedSGD"):
        fabric.setup(layer, SGD(layer.parameters(), lr=0.1, fused=True))

    assert str(refused.value) == (
        "AdamW(fused=True): torch has no fused kernel of it for 'hpu'. Fix: from"
        " habana_frameworks.torch.hpex.optimizers import FusedAdamW; FusedAdamW(params, lr=0.1, betas=(0.9, 0.999),"
        " eps=1e-08, weight_decay=0.01); its epsilon and its defaults differ from torch's"
    )


def test_a_release_without_classes_leaves_fused_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, OPTIMIZERS, None)

    fit(lambda parameters: AdamW(parameters, lr=0.1, fused=True), steps=1)

    (noted,) = [each for each in northbridge.record() if each.outcome == "no fused optimizers"]
    assert noted.reason.startswith("the vendor's software has none: ")


def test_a_new_shape_grows_the_vendors_count() -> None:
    acceleration = northbridge.get("hpu").acceleration
    assert isinstance(acceleration, HPUAcceleration)
    assert northbridge.get("hpu").capabilities.recompilation == northbridge.yes
    torch.ones(23, 3, device="hpu")
    before = acceleration.compilations()
    torch.ones(23, 3, device="hpu")
    known = acceleration.compilations()
    torch.ones(23, 5, device="hpu")

    assert set(before) == {"graph_compilation", "cpu_fallback", "memory_defragmentation"}
    assert known == before
    assert acceleration.compilations()["graph_compilation"] == before["graph_compilation"] + 1


def test_the_cache_counts_where_the_vendor_counts_it(run: Run) -> None:
    program = "torch.ones(2, device='hpu'); torch.ones(2, device='hpu'); print(backend.acceleration.compilations())"
    first = "import northbridge, torch\nbackend = northbridge.load('hpu')\n"

    assert "'recipe_cache hits': 1.0, 'recipe_cache misses': 1.0" in run(
        program, first=first, PT_HPU_ENABLE_CACHE_METRICS="1"
    )
