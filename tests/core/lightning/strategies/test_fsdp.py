"""Torch's first FSDP by its name: what a host makes of it before it trains."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, Claims
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

from northbridge.capabilities import Claim, no
from northbridge.errors import ArgumentsError, CollectiveError, UnsupportedError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace

pytestmark = pytest.mark.usefixtures("chip")


def stock(namespace: Namespace, **arguments: Any) -> Any:
    """Lightning's strategy, as its user makes it."""
    return namespace.module("strategies").FSDPStrategy(**arguments)


def test_the_name_means_ours(namespace: Namespace, build: Build) -> None:
    strategy = build(accelerator="cpu_sim", devices=2, strategy="fsdp").strategy
    offloads = build(accelerator="cpu_sim", devices=2, strategy="fsdp_cpu_offload").strategy

    assert type(strategy) is type(offloads) is classes(namespace).fsdp
    assert (strategy.cpu_offload.offload_params, offloads.cpu_offload.offload_params) == (False, True)
    assert str(strategy.root_device) == "cpu_sim:0"


def test_lightnings_object_becomes_ours_and_keeps_its_arguments(namespace: Namespace, build: Build) -> None:
    given = stock(namespace, sharding_strategy="SHARD_GRAD_OP", state_dict_type="full", limit_all_gathers=False)

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
    with pytest.raises(UnsupportedError) as refusal:
        build(accelerator="cpu_sim", devices=2, strategy="fsdp", precision=precision)

    assert str(refusal.value) == (
        f"FSDP has no precision={precision!r}. Fix: one of 32-true, 16-mixed, 16-true, bf16-mixed, bf16-true"
    )


@pytest.mark.parametrize("devices", [1, 2])
def test_it_is_refused_where_the_chip_denies_it(build: Build, claims: Claims, devices: int) -> None:
    claims(fsdp=no("its storages cannot be emptied"))

    with pytest.raises(UnsupportedError) as refusal:
        build(accelerator="cpu_sim", devices=devices, strategy="fsdp")

    assert str(refusal.value) == (
        "'cpu_sim' does not support torch's FSDP: its storages cannot be emptied. Fix: strategy='ddp', or FSDP2 by"
        " ModelParallelStrategy()"
    )
    assert refusal.value.capability == "fsdp"


def test_it_is_tried_where_the_claim_is_unknown(build: Build, claims: Claims, namespace: Namespace) -> None:
    claims(fsdp=Claim("unknown"))

    assert type(build(accelerator="cpu_sim", devices=2, strategy="fsdp").strategy) is classes(namespace).fsdp


def test_another_library_is_refused(namespace: Namespace, build: Build) -> None:
    with pytest.raises(CollectiveError, match=r"process_group_backend='gloo': .* needs 'simccl'"):
        build(accelerator="cpu_sim", devices=2, strategy=stock(namespace, process_group_backend="gloo"))


def test_a_dtype_that_the_library_lacks_is_refused(
    namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = build(accelerator="cpu_sim", devices=2, strategy="fsdp", precision="bf16-mixed").strategy
    monkeypatch.setattr(type(strategy.backend.collective), "carried_dtypes", frozenset({"float32"}))

    with pytest.raises(CollectiveError, match=r"'simccl' cannot send bfloat16. Fix: another prec"):
        strategy._reject_module(torch.nn.Linear(1, 1))


def test_ours_is_refused_on_the_cpu(namespace: Namespace, build: Build) -> None:
    ours = importlib.import_module(namespace.home).FSDPStrategy()

    with pytest.raises(UnsupportedError, match="FSDPStrategy of Northbridge does not run on"):
        build(accelerator="cpu", devices=2, strategy=ours)
