from __future__ import annotations

import copy
import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException

from northbridge.errors import CheckpointError, CollectiveError, NamespaceError, UnsupportedError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.strategies.sharded import _write

pytestmark = pytest.mark.usefixtures("chip")


def stock(namespace: Namespace, **arguments: Any) -> Any:
    """Lightning's strategy, as its user makes it."""
    if not namespace.is_trainer:
        arguments["parallelize_fn"] = lambda model, mesh: model
    return namespace.module("strategies.model_parallel").ModelParallelStrategy(**arguments)


def test_lightnings_object_becomes_ours_and_keeps_its_arguments(namespace: Namespace, build: Build) -> None:
    given = stock(namespace, data_parallel_size=2, tensor_parallel_size=1, save_distributed_checkpoint=False)

    strategy = build(accelerator="cpu_sim", devices=2, strategy=given).strategy

    assert strategy is given
    assert type(strategy) is classes(namespace).model_parallel
    assert (strategy._data_parallel_size, strategy._tensor_parallel_size) == (2, 1)
    assert strategy._save_distributed_checkpoint is False
    assert str(strategy.root_device) == "cpu_sim:0"


def test_our_own_object_is_taken_as_it_is(namespace: Namespace, build: Build) -> None:
    arguments: dict[str, Any] = {} if namespace.is_trainer else {"parallelize_fn": lambda model, mesh: model}
    given = importlib.import_module(namespace.home).ModelParallelStrategy(**arguments)

    assert build(accelerator="cpu_sim", devices=2, strategy=given).strategy is given


def test_other_namespaces_object_is_refused_with_the_import(namespace: Namespace, build: Build) -> None:
    other = next(each for each in NAMESPACES.values() if each.is_trainer == namespace.is_trainer and each != namespace)

    with pytest.raises(NamespaceError, match=f"import it from {namespace.name}.strategies"):
        build(accelerator="cpu_sim", devices=2, strategy=stock(other))


def test_16_mixed_is_refused_by_lightning(namespace: Namespace, build: Build) -> None:
    """Its scaler knows no sharded gradients."""
    with pytest.raises(ValueError, match=r"does not support .*precision='16-mixed'"):
        build(accelerator="cpu_sim", devices=2, strategy=stock(namespace), precision="16-mixed")


def test_another_library_is_refused(namespace: Namespace, build: Build) -> None:
    with pytest.raises(CollectiveError, match=r"process_group_backend='gloo': .* needs 'simccl'"):
        build(accelerator="cpu_sim", devices=2, strategy=stock(namespace, process_group_backend="gloo"))


def test_ours_is_refused_on_the_cpu(namespace: Namespace, build: Build) -> None:
    arguments: dict[str, Any] = {} if namespace.is_trainer else {"parallelize_fn": lambda model, mesh: model}
    ours = importlib.import_module(namespace.home).ModelParallelStrategy(**arguments)

    with pytest.raises(UnsupportedError, match="ModelParallelStrategy of Northbridge does not run on"):
        build(accelerator="cpu", devices=2, strategy=ours)


def test_a_copy_of_one_that_no_host_has_yet_keeps_its_arguments(namespace: Namespace) -> None:
    strategy = stock(namespace, data_parallel_size=4)
    strategy.__class__ = classes(namespace).model_parallel

    assert copy.deepcopy(strategy)._data_parallel_size == 4


class Size(int):
    """A dimension of a mesh."""

    def size(self) -> int:
        return int(self)


class Sharded(nn.Linear):
    """A stand-in for a layer of torch's FSDP2, which records how it must reduce."""

    told: bool | None = None

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        self.told = enable


@pytest.mark.parametrize(("averages", "told"), [(True, None), (False, True)])
def test_fsdp2_adds_up_if_the_library_has_no_average(
    namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch, averages: bool, told: bool | None
) -> None:
    strategy = build(accelerator="cpu_sim", devices=2, strategy=stock(namespace)).strategy
    monkeypatch.setattr(type(strategy.backend.collective), "averages", averages)
    layer = Sharded(2, 2)

    strategy._add_up_gradients(nn.Sequential(nn.Linear(2, 2), layer))

    assert layer.told is told


@pytest.mark.parametrize(
    "namespace", [each for each in NAMESPACES.values() if not each.is_trainer], ids=lambda each: each.name
)
def test_what_a_fabrics_function_leaves_whole_goes_to_the_device(namespace: Namespace, build: Build) -> None:
    strategy = build(accelerator="cpu_sim", devices=1, strategy=stock(namespace)).strategy
    model = nn.BatchNorm1d(2)
    weight = model.weight

    strategy._device_mesh = None
    with pytest.raises(RuntimeError, match="device mesh"):
        strategy.setup_module(model)
    strategy._device_mesh = {"data_parallel": Size(1), "tensor_parallel": Size(1)}
    strategy.setup_module(model)

    assert model.weight is weight
    assert {str(each.device) for each in (*model.parameters(), *model.buffers())} == {"cpu_sim:0"}
    assert torch.equal(weight.cpu(), torch.ones(2))


FULL = "[enforce fail at inline_container.cc:881] . PytorchStreamWriter failed writing file data/0: file write failed"


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (RuntimeError(FULL), "torch could not write all of it: the disk may be full"),
    ],
)
def test_full_disk_of_a_rank_is_named(reason: Exception, said: str) -> None:
    """Another rank may have failed because that one did."""

    def save(_draft: Path) -> None:
        raise CheckpointException("write", {0: (ValueError("no plan"), None), 1: (reason, None)})  # type: ignore[dict-item]

    with pytest.raises(CheckpointError) as raised:
        _write(save, Path("draft"), Path("/saved/last.ckpt"))

    assert str(raised.value).startswith(f"/saved/last.ckpt could not be written: {said}, says rank 1; an old file is")
    assert not isinstance(raised.value.__cause__, CheckpointException)  # its text is a traceback of each rank


def test_error_of_the_program_stays_as_it_is() -> None:
    def save(_draft: Path) -> None:
        raise CheckpointException("plan", {0: (ValueError("no plan"), None)})  # type: ignore[dict-item]

    with pytest.raises(CheckpointException, match="no plan"):
        _write(save, Path("draft"), Path("last.ckpt"))
