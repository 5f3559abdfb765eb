"""``fused=True``, and states that go from torch's optimizers to a vendor's and back."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, Claims, refusal
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

import northbridge
from northbridge import Backend, CheckpointError, UnsupportedError
from northbridge.discovery import declared
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.strategies.optimizers import keep_counts, reject_fused


class GroupedAdamW(Optimizer):
    """A vendor's AdamW: it counts the steps of a group, and its default of epsilon is another."""

    def __init__(self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0, "bias_correction": True})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None if closure is None else closure()
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            group["step"] = group.get("step", 0) + 1
            for each in group["params"]:
                state = self.state[each]
                if not state:
                    state |= {"step": 0, "exp_avg": torch.zeros_like(each), "exp_avg_sq": torch.zeros_like(each)}
                average, square = state["exp_avg"], state["exp_avg_sq"]
                average.mul_(beta1).add_(each.grad, alpha=1 - beta1)
                square.mul_(beta2).addcmul_(each.grad, each.grad, value=1 - beta2)
                size = group["lr"] * (1 - beta2 ** group["step"]) ** 0.5 / (1 - beta1 ** group["step"])
                each.addcdiv_(average, square.sqrt() + group["eps"], value=-size)
        return loss


class Vendors(northbridge.Acceleration):
    def fused_optimizers(self) -> Mapping[type[Optimizer], type[Optimizer]]:
        return {AdamW: GroupedAdamW}


@pytest.fixture
def vendors(run_on: Callable[[Backend], None]) -> Backend:
    """The simulated chip, whose vendor has its own AdamW."""
    backend = replace(declared.load("cpu_sim"), acceleration=Vendors())
    run_on(backend)
    return backend


def stepped(kind: Callable[..., Any], steps: int, state: Any = None, backend: Backend | None = None) -> tuple[Any, Any]:
    """Build an optimizer over two weights, load ``state``, step; return the weights and the saved state."""
    weights = [nn.Parameter(torch.ones(2, dtype=torch.float64) * number) for number in (1, 2)]
    optimizer = kind(weights, lr=0.1, eps=1e-12)
    if backend is not None:
        keep_counts(backend, optimizer)
    if state is not None:
        optimizer.load_state_dict(state)
    for step in range(steps):
        for each in weights:
            each.grad = torch.tensor([1.0, 2.0 + step], dtype=torch.float64)
        optimizer.step()
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    return torch.cat([each.detach() for each in weights]), torch.load(file, weights_only=True)


def plain(params: Any, **options: Any) -> AdamW:
    return AdamW(params, weight_decay=0.0, **options)


def test_fused_is_torchs_own_on_a_chip_without_classes(chip: None) -> None:
    weight = nn.Parameter(torch.ones(2, device="cpu_sim"))

    reject_fused(declared.load("cpu_sim"), AdamW([weight], fused=True))


def test_a_vendors_class_is_named_instead_of_torchs_kernel(vendors: Backend) -> None:
    weight = nn.Parameter(torch.ones(2, device="cpu_sim"))

    said = refusal(
        UnsupportedError, reject_fused, vendors, AdamW([weight], lr=0.1, fused=True), capability="fused_optimizers"
    )

    assert said == (
        "AdamW(fused=True): torch has no fused kernel of it for 'cpu_sim'. Fix:"
        f" from {__name__} import GroupedAdamW; GroupedAdamW(params, lr=0.1, betas=(0.9, 0.999), eps=1e-08); its"
        " formula differs, see docs/optimizers.md"
    )


def test_a_vendors_class_takes_no_sharded_parameters(vendors: Backend) -> None:
    weight = nn.Parameter(torch.ones(2))
    reject_fused(vendors, GroupedAdamW([weight]))
    weight.device_mesh = "of a DTensor"  # type: ignore[attr-defined]

    said = refusal(UnsupportedError, reject_fused, vendors, GroupedAdamW([weight]))

    assert said == (
        "GroupedAdamW takes no sharded parameters: torch cannot spread the vendor's operators. Fix: torch.optim.AdamW"
    )


def test_an_optimizer_that_the_vendor_lacks_is_left_unfused(vendors: Backend) -> None:
    weight = nn.Parameter(torch.ones(2, device="cpu_sim"))

    with pytest.raises(UnsupportedError, match=r"SGD\(fused=True\): .* Fix: leave fused= out"):
        reject_fused(vendors, SGD([weight], lr=0.1, fused=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_kernel_that_steps_nothing_is_refused(
    chip: None, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    weight = nn.Parameter(torch.ones(2, dtype=dtype))
    reject_fused(declared.load("cpu_sim"), AdamW([weight], fused=True))
    monkeypatch.setattr(torch, "_fused_adamw_", lambda *_, **__: None)
    reject_fused(declared.load("cpu_sim"), AdamW([nn.Parameter(torch.ones(2))], fused=True))

    said = refusal(
        UnsupportedError,
        reject_fused,
        declared.load("cpu_sim"),
        AdamW([weight], fused=True),
        capability="fused_optimizers",
    )

    assert said == (
        f"AdamW(fused=True) in {dtype} on cpu: it leaves 128 of 128 weights unchanged. Fix: leave fused= out"
    )


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # of the combined loader of Lightning
def test_sgd_in_16_bits_is_refused_where_torch_skips(namespace: Namespace, build: Build) -> None:
    """Up to torch 2.13 the CPU's fused SGD skips whole vectors of 16-bit weights: pytorch/pytorch#191763."""
    weight = torch.zeros(64, dtype=torch.bfloat16, requires_grad=True)
    weight.grad = torch.ones_like(weight)
    SGD([weight], lr=1.0, fused=True).step()
    options = {"max_steps": 1} if namespace.is_trainer else {}
    host = build(accelerator="cpu_sim", devices=1, precision="bf16-true", **options)
    make = partial(SGD, lr=0.1, fused=True)

    if bool(weight.all()):  # a later torch
        train_one_step(namespace, host, make)
        return
    said = refusal(UnsupportedError, train_one_step, namespace, host, make)

    assert said == (
        "SGD(fused=True) in torch.bfloat16 on cpu_sim:0: aten::_fused_sgd_ of bfloat16 is not computed: with torch"
        f" {torch.__version__}, whose CPU kernel computes for the simulated chip, most weights would stay unchanged"
        " (pytorch/pytorch#191763). Fix: leave fused= out"
    )


@pytest.mark.parametrize("options", [{}, {"fused": False}, {"foreach": True}], ids=str)
def test_what_is_not_fused_is_not_refused(vendors: Backend, options: dict[str, bool]) -> None:
    reject_fused(vendors, AdamW([nn.Parameter(torch.ones(2, device="cpu_sim"))], **options))  # type: ignore[arg-type]


def test_a_chip_that_denies_them_says_why(namespace: Namespace, build: Build, claims: Claims) -> None:
    claims(fused_optimizers=northbridge.no("its unit adds nothing"))
    host = for_one_step(namespace, build)

    said = refusal(
        UnsupportedError, train_one_step, namespace, host, lambda parameters: SGD(parameters, lr=0.1, fused=True)
    )

    assert said == "SGD(fused=True): 'cpu_sim' has no fused optimizers: its unit adds nothing. Fix: leave fused= out"


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # of the combined loader of Lightning
@pytest.mark.parametrize("kind", [Adam, AdamW, SGD])
def test_torchs_fused_trains_as_the_unfused(namespace: Namespace, build: Build, kind: Any) -> None:
    trained = [
        train_one_step(namespace, for_one_step(namespace, build), partial(kind, lr=0.1, fused=fused))
        for fused in (True, False)
    ]

    assert torch.allclose(trained[0], trained[1], atol=1e-6)


def for_one_step(namespace: Namespace, build: Build) -> Any:
    """Build a Trainer or a Fabric for :func:`train_one_step`."""
    return build(accelerator="cpu_sim", devices=1, **({"max_steps": 1} if namespace.is_trainer else {}))


def train_one_step(namespace: Namespace, host: Any, make: Callable[[Any], Optimizer]) -> torch.Tensor:
    """Train a layer for one step through a Trainer or a Fabric, and return its weight."""
    torch.manual_seed(0)
    if namespace.is_trainer:
        module = _module(namespace, make)
        host.fit(module, torch.utils.data.DataLoader(torch.ones(2, 3), batch_size=2))  # type: ignore[arg-type]
        trained: torch.Tensor = module.layer.weight.detach().cpu()
        return trained
    host.launch()
    layer = nn.Linear(3, 2)
    wrapped, optimizer = host.setup(layer, make(layer.parameters()))
    host.backward(wrapped(torch.ones(2, 3, device=host.device)).square().sum())
    optimizer.step()
    return layer.weight.detach().cpu()


def _module(namespace: Namespace, make: Callable[[Any], Optimizer]) -> Any:
    base: Any = namespace.module("core.module").LightningModule

    class Module(base):  # type: ignore[misc]  # Lightning's class of this namespace
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def training_step(self, batch: torch.Tensor, _index: int) -> torch.Tensor:
            return self.layer(batch).square().sum()  # type: ignore[no-any-return]

        def configure_optimizers(self) -> Optimizer:
            return make(self.parameters())

    return Module()


@pytest.mark.parametrize(
    ("first", "second"),
    [(plain, GroupedAdamW), (GroupedAdamW, plain), (GroupedAdamW, GroupedAdamW), (plain, plain)],
    ids=["torch to vendor", "vendor to torch", "vendor to vendor", "torch to torch"],
)
def test_a_state_keeps_its_count_in_the_other_class(vendors: Backend, first: Any, second: Any) -> None:
    _, saved = stepped(first, 3, backend=vendors)

    continued, after = stepped(second, 2, saved, vendors)

    expected, reference = stepped(plain, 2, stepped(plain, 3)[1])
    assert torch.allclose(continued, expected, atol=1e-9)
    assert [each["step"] for each in after["state"].values()] == [5, 5]
    assert [each["step"] for each in reference["state"].values()] == [5, 5]


def test_a_vendors_state_opens_where_northbridge_is_not(vendors: Backend) -> None:
    _, saved = stepped(GroupedAdamW, 3, backend=vendors)

    continued, _ = stepped(plain, 2, saved)

    assert torch.allclose(continued, stepped(plain, 2, stepped(plain, 3)[1])[0], atol=1e-9)


def test_torch_opens_a_state_saved_without_northbridge(vendors: Backend) -> None:
    _, saved = stepped(GroupedAdamW, 3)  # outside of Northbridge: its states count nothing

    continued, _ = stepped(plain, 2, saved, vendors)

    assert saved["state"][0]["step"] == 0
    assert torch.allclose(continued, stepped(plain, 2, stepped(plain, 3)[1])[0], atol=1e-9)


@pytest.mark.parametrize(
    ("kind", "option", "said"),
    [
        (AdamW, {"amsgrad": True}, "amsgrad=True"),
        (AdamW, {"maximize": True}, "maximize=True"),
        (Adam, {"weight_decay": 0.1}, "Adam's weight_decay, which is part of the gradient"),
    ],
)
def test_an_option_without_counterpart_is_refused(
    vendors: Backend, kind: Any, option: dict[str, Any], said: str
) -> None:
    _, saved = stepped(lambda params, **others: kind(params, **others, **option), 1)

    told = refusal(CheckpointError, stepped, GroupedAdamW, 1, saved, vendors)

    assert told == (
        f"the optimizer's state was saved with {said}, which GroupedAdamW lacks. Fix: load it with the class that"
        " saved it"
    )


def test_torch_refuses_a_state_without_bias_correction(vendors: Backend) -> None:
    _, saved = stepped(GroupedAdamW, 1, backend=vendors)
    saved["param_groups"][0]["bias_correction"] = False

    said = refusal(CheckpointError, stepped, plain, 1, saved, vendors)

    assert said == "the state has bias_correction=False, which AdamW lacks. Fix: load it with the class that saved it"


def test_the_count_of_another_packages_optimizer_is_left_alone() -> None:
    _, saved = stepped(GroupedAdamW, 3)

    _, after = stepped(GroupedAdamW, 1, saved, declared.load("cpu_sim"))  # a chip whose vendor has no such class

    assert after["param_groups"][0]["step"] == 4


def test_counts_that_differ_within_a_group_are_refused(vendors: Backend) -> None:
    weights = [nn.Parameter(torch.ones(1)) for _ in range(2)]
    optimizer = AdamW(weights)
    for given in (weights, weights[:1]):
        for each in weights:
            each.grad = torch.ones(1) if any(each is one for one in given) else None
        optimizer.step()
    grouped = GroupedAdamW(weights)
    keep_counts(vendors, grouped)

    said = refusal(CheckpointError, grouped.load_state_dict, optimizer.state_dict())

    assert said == (
        "parameters of one group have taken 1 to 2 steps, and GroupedAdamW counts one number for all. Fix: load the"
        " state with the class that saved it"
    )
