"""``fused=True``, states that go from torch's optimizers to a vendor's and back, and models that move."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, Claims, of_fabrics, of_trainers, refusal
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

import northbridge
from northbridge import Backend, CheckpointError, UnsupportedError, WrongDeviceError
from northbridge.discovery import declared
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.strategies import optimizers as room
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


def test_a_vendors_class_is_named_instead_of_torchs_kernel(vendors: Backend) -> None:
    weight = nn.Parameter(torch.ones(2, device="cpu_sim"))

    said = refusal(
        UnsupportedError, reject_fused, vendors, AdamW([weight], lr=0.1, fused=True), capability="fused_optimizers"
    )

    assert said == (
        "AdamW(fused=True): torch has no fused kernel of it for 'cpu_sim'. Fix:"
        f" from {__name__} import GroupedAdamW; GroupedAdamW(params, lr=0.1, betas=(0.9, 0.999), eps=1e-08); its"
        " epsilon and its defaults differ from torch's"
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
    reject_fused(vendors, AdamW([weight], foreach=True))

    with pytest.raises(UnsupportedError, match=r"SGD\(fused=True\): .* Fix: leave fused= out"):
        reject_fused(vendors, SGD([weight], lr=0.1, fused=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_kernel_that_steps_nothing_is_refused(
    chip: None, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    backend, optimizer = declared.load("cpu_sim"), AdamW([nn.Parameter(torch.ones(2, dtype=dtype))], fused=True)
    reject_fused(backend, optimizer)
    monkeypatch.setattr(torch, "_fused_adamw_", lambda *_, **__: None)
    reject_fused(backend, AdamW([nn.Parameter(torch.ones(2))], fused=True))

    said = refusal(UnsupportedError, reject_fused, backend, optimizer, capability="fused_optimizers")

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
    module: Any = namespace.module("core.module").LightningModule()
    module.layer = nn.Linear(3, 2)
    module.training_step = lambda batch: module.layer(batch).square().sum()
    module.configure_optimizers = lambda: make(module.parameters())
    return module


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


@pytest.mark.parametrize("without", ["saving", "loading"])
def test_a_state_opens_where_northbridge_was_or_is_not(vendors: Backend, without: str) -> None:
    _, saved = stepped(GroupedAdamW, 3, backend=None if without == "saving" else vendors)

    assert saved["state"][0]["step"] == (0 if without == "saving" else 3)  # its own states count nothing
    continued, _ = stepped(plain, 2, saved, None if without == "loading" else vendors)
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


# --- Parameters that a move replaces, as torch does for every device if a flag is set


@pytest.fixture
def new_parameters() -> Iterator[None]:
    """Have every move make new parameters, as for a device that torch cannot put behind old ones."""
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    yield
    torch.__future__.set_overwrite_module_params_on_conversion(False)


def tied() -> Any:
    torch.manual_seed(0)
    net: Any = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.LSTM(2, 2, num_layers=2))
    net[1].weight = net[0].weight
    net[2].weight_hh_l1 = net[2].weight_hh_l0
    return net


def step(net: nn.Module, optimizers: list[Any]) -> dict[str, torch.Tensor]:
    """Train one step, and return the weights."""
    device = next(net.parameters()).device
    net(torch.tensor([[1.0, 2.0]], device=device))[0].sum().backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    return {name: each.detach().cpu() for name, each in net.state_dict().items()}


def optimizers_of(net: Any) -> list[Any]:
    first = torch.optim.Adam([{"params": net[0].parameters(), "lr": 0.5}, {"params": [net[1].bias]}])
    return [first, torch.optim.SGD(net[2].parameters(), 0.1, momentum=0.9)]


@pytest.mark.usefixtures("chip", "new_parameters")
@of_fabrics
@pytest.mark.parametrize("way", ["together", "apart"])
def test_fabric_optimizers_train_what_the_model_computes_with(build: Build, way: str) -> None:
    fabric, net, expected_net = build(accelerator="cpu_sim", devices=1), tied(), tied()
    mine, expected = optimizers_of(net), optimizers_of(expected_net)
    step(net, mine)
    step(expected_net, expected)  # so that the optimizers have a state

    if way == "together":
        model, *taken = fabric.setup(net, *mine)
    else:
        model = fabric.setup_module(net)
        taken = list(fabric.setup_optimizers(*mine))

    step(model, taken)
    step(expected_net, expected)
    found, right = step(model, taken), step(expected_net, expected)
    for name, each in right.items():
        assert torch.equal(found[name], each), name
    assert [len(each.state) for each in mine] == [len(each.state) for each in expected]


@pytest.mark.usefixtures("chip", "new_parameters")
@of_fabrics
def test_fabric_keeps_ties_hooks_and_attributes(build: Build) -> None:
    net = tied()
    net[0].bias.register_hook(lambda slope: slope * 0)
    net[0].bias.group = "frozen"

    model = build(accelerator="cpu_sim", devices=1).setup(net)
    step(model, [])

    assert net[1].weight is net[0].weight
    assert net[2].weight_hh_l1 is net[2].weight_hh_l0 is net[2]._flat_weights[1] is net[2]._flat_weights[5]
    assert net[0].bias.grad.tolist() == [0, 0]
    assert net[0].bias.group == "frozen"


@pytest.mark.usefixtures("chip", "new_parameters")
@of_fabrics
def test_fabric_refuses_an_optimizer_of_what_was_moved_before(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "keeps_parameters", lambda _device: False)
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    net.to("cpu_sim")

    said = refusal(WrongDeviceError, build(accelerator="cpu_sim", devices=1).setup, net, optimizer)

    assert said == "SGD would train 2 parameters on 'cpu'. Fix: create it after the model moves to 'cpu_sim:0'"


@pytest.mark.usefixtures("chip")
def test_parameters_are_kept_where_torch_swaps_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "_has_compatible_shallow_copy_type", lambda _old, _new: False)
    device = torch.device("cpu_sim")
    assert not room.keeps_parameters(device)

    monkeypatch.setattr(torch.__future__, "get_swap_module_params_on_conversion", lambda: True)

    assert room.keeps_parameters(device)


def module_of(namespace: Namespace) -> Any:
    """A module that makes its optimizers before Lightning asks for them, as some users do."""
    net: Any = namespace.module("core").LightningModule()
    net.net, net.automatic_optimization = tied(), False
    net.made = [torch.optim.Adam(net.net.parameters(), 0.1), torch.optim.SGD([net.net[1].bias], 0.1, momentum=0.5)]
    schedule = torch.optim.lr_scheduler.StepLR(net.made[0], 1)

    def train(batch: torch.Tensor) -> None:
        net.manual_backward(net.net(batch)[0].sum())
        for optimizer in net.optimizers():
            optimizer.step()
            optimizer.zero_grad()

    net.training_step, net.test_step = train, lambda batch: net.net(batch)[0]
    net.configure_optimizers = lambda: (net.made, [schedule])
    return net


@pytest.mark.filterwarnings("ignore")  # Lightning's own, about workers of data loaders and what torch deprecates
@pytest.mark.usefixtures("chip", "new_parameters")
@of_trainers
def test_trainer_trains_what_the_model_computes_with(namespace: Namespace, build: Build) -> None:
    """Over two fits and a test between them, for each of which the model moves there and back."""
    examples: Any = [torch.tensor([1.0, 2.0])] * 3
    nets: dict[str, Any] = {}
    data: Any = torch.utils.data.DataLoader(examples)
    for accelerator in ("cpu", "cpu_sim"):
        torch.__future__.set_overwrite_module_params_on_conversion(accelerator != "cpu")
        nets[accelerator] = net = module_of(namespace)
        for _ in range(2):
            trainer = build(accelerator=accelerator, devices=1, max_epochs=1, num_sanity_val_steps=0)
            trainer.fit(net, data)
            trainer.test(net, data, verbose=False)

    found, right = nets["cpu_sim"], nets["cpu"]
    for name, each in right.state_dict().items():
        assert torch.equal(found.state_dict()[name], each), name
    assert found.net[1].weight is found.net[0].weight
    assert {id(each) for group in found.made[0].param_groups for each in group["params"]} == {
        id(each) for each in found.net.parameters()
    }
    assert {each.device.type for state in found.made[0].state.values() for each in state.values()} == {"cpu"}
