"""FSDP2 and torch's first FSDP by their names: what a host makes of them before it trains."""

from __future__ import annotations

import copy
import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, Claims, of_fabrics, refusal
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

from northbridge.capabilities import Claim, no
from northbridge.errors import ArgumentsError, CheckpointError, CollectiveError, NamespaceError, UnsupportedError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.strategies.sharded import _write

pytestmark = pytest.mark.usefixtures("chip")

of_each_kind = pytest.mark.parametrize("kind", ["ModelParallelStrategy", "FSDPStrategy"])


def stock(namespace: Namespace, kind: str = "ModelParallelStrategy", **arguments: Any) -> Any:
    """Lightning's strategy, as its user makes it."""
    if kind == "ModelParallelStrategy" and not namespace.is_trainer:
        arguments["parallelize_fn"] = lambda model, mesh: model
    return getattr(namespace.module("strategies"), kind)(**arguments)


def ours(namespace: Namespace, kind: str) -> Any:
    arguments = {} if kind == "FSDPStrategy" or namespace.is_trainer else {"parallelize_fn": lambda model, mesh: model}
    return getattr(importlib.import_module(namespace.home), kind)(**arguments)


@of_each_kind
def test_our_own_object_is_taken_as_it_is(namespace: Namespace, build: Build, kind: str) -> None:
    given = ours(namespace, kind)

    assert build(accelerator="cpu_sim", devices=2, strategy=given).strategy is given


@of_each_kind
def test_other_namespaces_object_is_refused_with_the_import(namespace: Namespace, build: Build, kind: str) -> None:
    other = next(each for each in NAMESPACES.values() if each.is_trainer == namespace.is_trainer and each != namespace)

    with pytest.raises(NamespaceError, match=f"import it from {namespace.name}.strategies"):
        build(accelerator="cpu_sim", devices=2, strategy=stock(other, kind))


@of_each_kind
def test_another_library_is_refused(namespace: Namespace, build: Build, kind: str) -> None:
    with pytest.raises(CollectiveError, match=r"process_group_backend='gloo': .* needs 'simccl'"):
        build(accelerator="cpu_sim", devices=2, strategy=stock(namespace, kind, process_group_backend="gloo"))


@of_each_kind
def test_ours_is_refused_on_the_cpu(namespace: Namespace, build: Build, kind: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{kind} of Northbridge does not run on"):
        build(accelerator="cpu", devices=2, strategy=ours(namespace, kind))


# --- FSDP2 and tensor parallel


def test_fsdp2_becomes_ours_and_keeps_its_arguments(namespace: Namespace, build: Build) -> None:
    given = stock(namespace, data_parallel_size=2, tensor_parallel_size=1, save_distributed_checkpoint=False)

    strategy = build(accelerator="cpu_sim", devices=2, strategy=given).strategy

    assert strategy is given
    assert type(strategy) is classes(namespace).model_parallel
    assert (strategy._data_parallel_size, strategy._tensor_parallel_size) == (2, 1)
    assert strategy._save_distributed_checkpoint is False
    assert str(strategy.root_device) == "cpu_sim:0"


def test_16_mixed_is_refused_by_lightning(namespace: Namespace, build: Build) -> None:
    """Its scaler knows no sharded gradients."""
    with pytest.raises(ValueError, match=r"does not support .*precision='16-mixed'"):
        build(accelerator="cpu_sim", devices=2, strategy=stock(namespace), precision="16-mixed")


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


@of_fabrics
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


# --- FSDP


def test_fsdps_name_means_ours(namespace: Namespace, build: Build) -> None:
    strategy = build(accelerator="cpu_sim", devices=2, strategy="fsdp").strategy
    offloads = build(accelerator="cpu_sim", devices=2, strategy="fsdp_cpu_offload").strategy

    assert type(strategy) is type(offloads) is classes(namespace).fsdp
    assert (strategy.cpu_offload.offload_params, offloads.cpu_offload.offload_params) == (False, True)
    assert str(strategy.root_device) == "cpu_sim:0"


def test_fsdp_becomes_ours_and_keeps_its_arguments(namespace: Namespace, build: Build) -> None:
    given = stock(
        namespace, "FSDPStrategy", sharding_strategy="SHARD_GRAD_OP", state_dict_type="full", limit_all_gathers=False
    )

    strategy = build(accelerator="cpu_sim", devices=2, strategy=given).strategy

    assert strategy is given
    assert type(strategy) is classes(namespace).fsdp
    assert strategy.sharding_strategy is ShardingStrategy.SHARD_GRAD_OP
    assert strategy._torch_arguments["limit_all_gathers"] is False
    assert strategy._torch_arguments["use_orig_params"] is True


@pytest.mark.parametrize("precision", ["32-true", "16-mixed", "16-true", "bf16-mixed", "bf16-true"])
def test_its_precision_is_on_the_chip(namespace: Namespace, build: Build, precision: str) -> None:
    strategy = build(accelerator="cpu_sim", devices=2, strategy="fsdp", precision=precision).strategy
    plugin = strategy.precision_plugin if namespace.is_trainer else strategy.precision

    assert type(plugin) is classes(namespace).fsdp_precision
    assert isinstance(plugin.scaler, ShardedGradScaler) == (precision == "16-mixed")
    if plugin.scaler is not None:
        assert (plugin.scaler._device, plugin.scaler.is_enabled()) == ("cpu_sim", True)
    with plugin.forward_context():
        assert torch.is_autocast_enabled("cpu_sim") == ("mixed" in precision)


@pytest.mark.filterwarnings("ignore:.*CUDA is not available")  # of the scaler that Lightning makes for the user
def test_a_users_own_precision_is_bound_to_the_chip(namespace: Namespace, build: Build) -> None:
    given = namespace.module("plugins.precision.fsdp").FSDPPrecision("16-mixed")

    build(accelerator="cpu_sim", devices=2, strategy="fsdp", plugins=[given])

    assert type(given) is classes(namespace).fsdp_precision
    assert (given.device_type, given.scaler._device) == ("cpu_sim", "cpu_sim")


def test_a_scaler_of_the_user_is_kept(namespace: Namespace) -> None:
    """Lightning's class fails if it is given one."""
    scaler = ShardedGradScaler(device="cpu_sim", init_scale=2.0)

    assert classes(namespace).fsdp_precision("16-mixed", scaler).scaler is scaler
    with pytest.raises(ArgumentsError, match="only '16-mixed' uses scaler="):
        classes(namespace).fsdp_precision("bf16-mixed", scaler)


def test_a_users_scaler_for_another_device_is_refused(namespace: Namespace, build: Build) -> None:
    given = classes(namespace).fsdp_precision("16-mixed", ShardedGradScaler(device="cpu"))

    with pytest.raises(UnsupportedError, match=r"the GradScaler of .* is for 'cpu', .* leave scaler= out"):
        build(accelerator="cpu_sim", devices=2, strategy="fsdp", plugins=[given])


@pytest.mark.parametrize("by_user", [False, True])
def test_scaler_uses_the_group_of_its_step(
    namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch, by_user: bool
) -> None:
    """As where torch's module was imported while another group was there, such as Ray's, or the first of two."""
    earlier = object()
    defaults: Any = ShardedGradScaler.__init__.__defaults__
    monkeypatch.setattr(ShardedGradScaler.__init__, "__defaults__", (*defaults[:-1], earlier))
    scaler = ShardedGradScaler(device="cpu_sim", init_scale=2.0) if by_user else None
    given = classes(namespace).fsdp_precision("16-mixed", scaler)

    build(accelerator="cpu_sim", devices=2, strategy="fsdp", plugins=[given])

    assert given.scaler.process_group is None
    assert (given.scaler is scaler) == by_user


@pytest.mark.parametrize("precision", ["64-true", "transformer-engine"])
def test_a_precision_that_it_lacks_is_refused(namespace: Namespace, build: Build, precision: str) -> None:
    said = refusal(UnsupportedError, build, accelerator="cpu_sim", devices=2, strategy="fsdp", precision=precision)

    assert said == (
        f"FSDP has no precision={precision!r}. Fix: one of 32-true, 16-mixed, 16-true, bf16-mixed, bf16-true"
    )


@pytest.mark.parametrize("devices", [1, 2])
def test_it_is_refused_where_the_chip_denies_it(build: Build, claims: Claims, devices: int) -> None:
    claims(fsdp=no("its storages cannot be emptied"))

    said = refusal(UnsupportedError, build, accelerator="cpu_sim", devices=devices, strategy="fsdp", capability="fsdp")

    assert said == (
        "'cpu_sim' does not support torch's FSDP: its storages cannot be emptied. Fix: strategy='ddp', or FSDP2 by"
        " ModelParallelStrategy()"
    )


def test_it_is_tried_where_the_claim_is_unknown(build: Build, claims: Claims, namespace: Namespace) -> None:
    claims(fsdp=Claim("unknown"))

    assert type(build(accelerator="cpu_sim", devices=2, strategy="fsdp").strategy) is classes(namespace).fsdp


def test_a_dtype_that_the_library_lacks_is_refused(
    namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = build(accelerator="cpu_sim", devices=2, strategy="fsdp", precision="bf16-mixed").strategy
    monkeypatch.setattr(type(strategy.backend.collective), "carried_dtypes", frozenset({"float32"}))

    with pytest.raises(CollectiveError, match=r"'simccl' cannot send bfloat16. Fix: another prec"):
        strategy._reject_module(nn.Linear(1, 1))
