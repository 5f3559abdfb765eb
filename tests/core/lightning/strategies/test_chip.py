from __future__ import annotations

import copy
import importlib
import io
import pickle
import pickletools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from tests.core.lightning.conftest import Build, of_fabrics, of_trainers, refusal

from northbridge.backend import Backend
from northbridge.discovery import declared
from northbridge.errors import WrongDeviceError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.strategies.chip import assert_on_device

pytestmark = pytest.mark.usefixtures("chip")


class Pinned(torch.nn.Linear):
    """A module that stays where it is."""

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        return self


@pytest.fixture
def process_group() -> Iterator[None]:
    """End the process group that a DDP strategy leaves behind in this process."""
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize(("strategy", "devices"), [("auto", 1), ("ddp_spawn", 2)])
def test_a_spawned_rank_loads_the_chip_before_it_unpickles(build: Build, strategy: str, devices: int) -> None:
    wire = pickle.dumps(build(accelerator="cpu_sim", devices=devices, strategy=strategy).strategy)
    words = [argument for _, argument, _ in pickletools.genops(io.BytesIO(wire)) if isinstance(argument, str)]

    assert words.index("_load_first") < words.index("device")


@of_trainers
def test_a_pickled_strategy_arrives_with_its_optimizers(namespace: Namespace, build: Build) -> None:
    strategy = build(accelerator="cpu_sim", devices=1).strategy
    strategy.optimizers = [torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 0.1)]

    arrived = pickle.loads(pickle.dumps(strategy))

    (wrapped,) = arrived._lightning_optimizers
    assert wrapped.optimizer is arrived.optimizers[0]


def test_a_strategy_that_has_no_accelerator_yet_can_be_copied(namespace: Namespace) -> None:
    strategy = classes(namespace).ddp(find_unused_parameters=True)

    assert copy.deepcopy(strategy)._ddp_kwargs == {"find_unused_parameters": True}


def test_the_root_device_of_a_single_card_is_card_0(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type(declared.get("cpu_sim").device)
    monkeypatch.setattr(kind, "root", lambda device, index: torch.device("cpu_sim", 0))

    assert str(build(accelerator="cpu_sim", devices=[3]).strategy.root_device) == "cpu_sim:0"


def test_the_chip_is_asked_for_its_root_device_once(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again where Lightning's is another."""
    strategy = build(accelerator="cpu_sim", devices=2).strategy
    root = Mock(side_effect=lambda index: torch.device("cpu_sim", index))
    monkeypatch.setattr(type(declared.get("cpu_sim").device), "root", root)
    strategy.__dict__.pop("_rooted", None)  # what was known before

    assert [str(strategy.root_device) for _ in range(3)] == ["cpu_sim:0"] * 3
    strategy.parallel_devices = [torch.device("cpu_sim", 1), torch.device("cpu_sim", 0)]
    assert [str(strategy.root_device) for _ in range(3)] == ["cpu_sim:1"] * 3
    assert [each.args for each in root.call_args_list] == [(0,), (1,)]
    assert "_rooted" not in strategy.__getstate__()  # a spawned rank has a device of its own


@pytest.fixture
def heard(run_on: Callable[[Backend], None]) -> list[str]:
    """Return the calls to the bridge, in order, as for a chip with a lazy runtime."""
    heard: list[str] = []
    backend = declared.get("cpu_sim")

    class LazyBridge(type(backend.bridge)):  # type: ignore[misc]  # the simulated chip's, which the core cannot import
        def load(self) -> None:
            raise AssertionError("the chip is loaded already")

        def after_backward(self) -> None:
            heard.append("backward")

        def after_step(self) -> None:
            heard.append("step")

        def after_evaluation(self) -> None:
            heard.append("evaluation")

    run_on(replace(backend, bridge=LazyBridge()))
    return heard


@pytest.mark.filterwarnings("ignore")  # Lightning's own, about workers of data loaders and what torch deprecates
@of_trainers
@pytest.mark.parametrize("strategy", ["auto", "ddp"])
@pytest.mark.usefixtures("process_group")
def test_trainer_tells_of_steps_without_backward(
    namespace: Namespace, build: Build, heard: list[str], strategy: str
) -> None:
    """The suite has those of a fit (BridgeHooks)."""
    model = importlib.import_module(f"{namespace.name}.demos.boring_classes").BoringModel()
    two = {f"limit_{stage}_batches": 2 for stage in ("val", "test", "predict")}
    trainer = build(accelerator="cpu_sim", devices=1, strategy=strategy, **two)

    for act in (trainer.validate, trainer.test, trainer.predict):
        act(model)
        assert heard == ["evaluation"] * 2
        heard.clear()


@pytest.mark.filterwarnings("ignore")  # Lightning's own, about workers of data loaders and what torch deprecates
@of_trainers
@pytest.mark.parametrize("strategy", ["auto", "ddp"])
@pytest.mark.parametrize("manual", [False, True])
@pytest.mark.usefixtures("process_group")
def test_every_call_of_backward_is_the_loops_own(
    namespace: Namespace, build: Build, strategy: str, manual: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripts count the calls of Tensor.backward: one a batch, and none to try the chip out."""
    boring: Any = importlib.import_module(f"{namespace.name}.demos.boring_classes")
    model = boring.ManualOptimBoringModel() if manual else boring.BoringModel()
    counted = Mock(side_effect=torch.Tensor.backward)
    monkeypatch.setattr(torch.Tensor, "backward", lambda tensor, *args, **kwargs: counted(tensor, *args, **kwargs))
    more = {"max_epochs": 1, "limit_val_batches": 1, **({} if manual else {"accumulate_grad_batches": 2})}

    build(accelerator="cpu_sim", devices=1, strategy=strategy, limit_train_batches=4, **more).fit(model)

    assert [call.args[0].device.type for call in counted.call_args_list] == ["cpu_sim"] * 4


@of_fabrics
@pytest.mark.parametrize("strategy", ["auto", "ddp"])
@pytest.mark.usefixtures("process_group")
def test_in_a_fabric_it_hears_of_forwards_without_gradients(build: Build, heard: list[str], strategy: str) -> None:
    fabric = build(accelerator="cpu_sim", devices=1, strategy=strategy)
    fabric.launch()
    model = fabric.setup_module(torch.nn.Linear(2, 1))
    inputs = torch.ones(1, 2, device=fabric.device)

    model(inputs)
    assert heard == []
    for without_gradients in (torch.no_grad(), torch.inference_mode()):
        with without_gradients:
            model(inputs)

    assert heard == ["evaluation", "evaluation"]


@of_fabrics
@pytest.mark.parametrize(
    "cross", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))], ids=["copied", "pickled"]
)
def test_fabric_module_can_be_copied_and_still_tells(
    build: Build, heard: list[str], cross: Callable[[torch.nn.Module], torch.nn.Module]
) -> None:
    fabric = build(accelerator="cpu_sim", devices=1)
    module = torch.nn.Linear(2, 1)
    fabric.setup_module(module)

    arrived = cross(module)
    with torch.no_grad():
        result = arrived(torch.ones(1, 2, device=fabric.device))

    assert torch.equal(result.cpu(), module(torch.ones(1, 2, device=fabric.device)).cpu())
    assert heard == ["evaluation"]


@of_fabrics
def test_module_gets_no_hook_unless_wanted(build: Build) -> None:
    module = torch.nn.Linear(2, 1)

    build(accelerator="cpu_sim", devices=1).setup_module(module)

    assert list(module._forward_hooks) == []


def layers() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@of_fabrics
@pytest.mark.parametrize(
    ("wrap", "where"),
    [
        (lambda model: Mock(wraps=model), "cpu"),  # Lightning moves modules, and this is not one
        (lambda model: Mock(wraps=model, spec=torch.nn.Sequential), "cpu_sim"),
        (torch.jit.script, "cpu_sim"),
        (lambda model: torch.nn.Sequential(torch.jit.script(model)), "cpu_sim"),
    ],
    ids=["a mock", "a mock of its class", "a scripted module", "a scripted layer"],
)
def test_fabric_sets_up_wrapped_modules(build: Build, wrap: Callable[[torch.nn.Module], Any], where: str) -> None:
    """The parts of these modules are not in dictionaries."""
    model = wrap(layers())

    build(accelerator="cpu_sim", devices=1).setup(model)

    assert {each.device.type for each in (*model.parameters(), *model.buffers())} == {where}


@of_fabrics
def test_fabric_loop_may_call_backward_itself(build: Build) -> None:
    fabric = build(accelerator="cpu_sim", devices=1)
    net = fabric.setup(torch.nn.Linear(2, 1))

    net(torch.ones(1, 2, device=fabric.device)).sum().backward()

    assert torch.equal(net.weight.grad.cpu(), torch.ones(1, 2))


@of_fabrics
def test_a_model_that_stays_on_the_cpu_is_an_error(build: Build) -> None:
    fabric = build(accelerator="cpu_sim", devices=[1])

    said = refusal(WrongDeviceError, fabric.setup_module, torch.nn.Sequential(torch.nn.Linear(2, 2), Pinned(2, 2)))

    assert said == "parameter '1.weight' of Sequential stayed on 'cpu'. Fix: let .to('cpu_sim:1') move it"


def test_a_buffer_on_another_device_of_the_chip_is_an_error() -> None:
    """But not what is on none."""
    module = torch.nn.BatchNorm1d(2, device="cpu_sim:0")
    module.register_buffer("steps", torch.zeros(1, device="cpu_sim:1"))

    with pytest.raises(WrongDeviceError, match="buffer 'steps' of BatchNorm1d stayed on 'cpu_sim:1'"):
        assert_on_device(module, torch.device("cpu_sim", 0))
    assert_on_device(torch.nn.Linear(2, 2, device="meta"), torch.device("cpu_sim", 0))


@pytest.mark.usefixtures("process_group")
@of_trainers
@pytest.mark.parametrize(
    ("asked", "on_the_chip", "reads"),
    [
        ("auto", True, True),
        ("ddp", True, True),
        ("fsdp", False, False),  # its set-up moves the shards; Lightning's own reading asks for the Trainer
        ("model_parallel", True, False),  # Lightning reads into a model with shards alone
    ],
)
def test_strategy_with_unattached_model(
    namespace: Namespace, build: Build, tmp_path: Path, asked: str, on_the_chip: bool, reads: bool
) -> None:
    """It is called by hand, with a model that is attached to no Trainer."""
    demos: Any = importlib.import_module(f"{namespace.name}.demos.boring_classes")
    kinds = {"model_parallel": namespace.module("strategies").ModelParallelStrategy}
    chosen = kinds[asked]() if asked in kinds else asked
    strategy = build(accelerator="cpu_sim", devices=1, strategy=chosen).strategy
    model = demos.BoringModel()
    strategy.connect(model)

    strategy.setup_environment()
    strategy.model_to_device()
    where = model.layer.weight.device.type
    strategy.on_train_start()
    strategy.save_checkpoint({"state_dict": model.state_dict(), "optimizer_states": []}, tmp_path / "some.ckpt")
    if reads:
        torch.testing.assert_close(
            strategy.load_checkpoint(tmp_path / "some.ckpt")["state_dict"],
            {name: each.cpu() for name, each in model.state_dict().items()},
        )
    strategy.teardown()

    strategy.connect(Mock(wraps=model))
    strategy.setup_environment()

    assert where == ("cpu_sim" if on_the_chip else "cpu")
    assert (tmp_path / "some.ckpt").exists()
