"""Objects with parameters that a move replaces, as torch does for every device if a flag is set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, of_fabrics, of_trainers, refusal
from torch import nn

from northbridge.errors import WrongDeviceError
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.strategies import optimizers

pytestmark = pytest.mark.usefixtures("chip")


@pytest.fixture(autouse=True)
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


# --- Fabric


@of_fabrics
@pytest.mark.parametrize("way", ["together", "apart"])
def test_fabric_optimizers_train_what_the_model_computes_with(build: Build, way: str) -> None:
    fabric = build(accelerator="cpu_sim", devices=1)
    net = tied()
    first = torch.optim.Adam([{"params": net[0].parameters(), "lr": 0.5}, {"params": [net[1].bias]}])
    second = torch.optim.SGD(net[2].parameters(), 0.1, momentum=0.9)
    expected_net = tied()
    expected = [
        torch.optim.Adam([{"params": expected_net[0].parameters(), "lr": 0.5}, {"params": [expected_net[1].bias]}]),
        torch.optim.SGD(expected_net[2].parameters(), 0.1, momentum=0.9),
    ]

    if way == "together":
        model, *optimizers = fabric.setup(net, first, second)
    else:
        model = fabric.setup_module(net)
        optimizers = list(fabric.setup_optimizers(first, second))

    step(model, optimizers)
    step(expected_net, expected)
    found, right = step(model, optimizers), step(expected_net, expected)
    for name, each in right.items():
        assert torch.equal(found[name], each), name


@of_fabrics
def test_fabric_keeps_an_optimizers_state(build: Build) -> None:
    nets = [tied(), tied()]
    mine, right = (torch.optim.Adam(each.parameters(), 0.5) for each in nets)
    for net, optimizer in zip(nets, (mine, right), strict=True):
        step(net, [optimizer])

    model, optimizer = build(accelerator="cpu_sim", devices=1).setup(nets[0], mine)

    found, expected = step(model, [optimizer]), step(nets[1], [right])
    for name, each in expected.items():
        assert torch.equal(found[name], each), name
    assert len(mine.state) == len(right.state)


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


@of_fabrics
def test_fabric_refuses_an_optimizer_of_what_was_moved_before(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizers, "keeps_parameters", lambda _device: False)
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    net.to("cpu_sim")

    said = refusal(WrongDeviceError, build(accelerator="cpu_sim", devices=1).setup, net, optimizer)

    assert said == "SGD would train 2 parameters on 'cpu'. Fix: create it after the model moves to 'cpu_sim:0'"


# --- Trainer


def module_class(namespace: Namespace) -> Any:
    class Net(namespace.module("core").LightningModule):  # type: ignore[misc]  # Lightning's class of this namespace
        def __init__(self) -> None:
            super().__init__()
            self.net: Any = tied()
            # Made here, as some users do, and not where Lightning asks for it.
            self.optimizer = torch.optim.Adam(self.net.parameters(), 0.1)
            self.other = torch.optim.SGD([self.net[1].bias], 0.1, momentum=0.5)
            self.automatic_optimization = False

        def training_step(self, batch: torch.Tensor, _index: int) -> None:
            self.manual_backward(self.net(batch)[0].sum())
            for optimizer in self.optimizers():
                optimizer.step()
                optimizer.zero_grad()

        def test_step(self, batch: torch.Tensor, batch_idx: int) -> None:
            self.net(batch)

        def configure_optimizers(self) -> Any:
            schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 1)
            return [self.optimizer, self.other], [schedule]

    return Net


@pytest.mark.filterwarnings("ignore")  # Lightning's own, about workers of data loaders and what torch deprecates
@of_trainers
def test_trainer_trains_what_the_model_computes_with(namespace: Namespace, build: Build) -> None:
    """Over two fits and a test between them, for each of which the model moves there and back."""
    module = module_class(namespace)
    examples: Any = [torch.tensor([1.0, 2.0])] * 3
    nets: dict[str, Any] = {}
    data: Any = torch.utils.data.DataLoader(examples)
    for accelerator in ("cpu", "cpu_sim"):
        torch.__future__.set_overwrite_module_params_on_conversion(accelerator != "cpu")
        nets[accelerator] = net = module()
        for _ in range(2):
            trainer = build(accelerator=accelerator, devices=1, max_epochs=1, num_sanity_val_steps=0)
            trainer.fit(net, data)
            trainer.test(net, data, verbose=False)

    found, right = nets["cpu_sim"], nets["cpu"]
    for name, each in right.state_dict().items():
        assert torch.equal(found.state_dict()[name], each), name
    assert found.net[1].weight is found.net[0].weight
    assert {id(each) for group in found.optimizer.param_groups for each in group["params"]} == {
        id(each) for each in found.net.parameters()
    }
    assert {each.device.type for state in found.optimizer.state.values() for each in state.values()} == {"cpu"}
