from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import torch.distributed as dist
from tests.core.lightning.conftest import Build, Claims, of_trainers, refusal

from northbridge.capabilities import no
from northbridge.errors import ClusterError, CollectiveError, UnsupportedError, VariableError, WrongDeviceError
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.strategies.parallel import reduction_word

pytestmark = pytest.mark.usefixtures("chip")


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Make this process the only member of a process group, as a user may do before the Trainer does."""

    def making(backend: str) -> None:
        store = dist.HashStore()  # type: ignore[attr-defined]  # torch documents it, and does not export it
        dist.init_process_group(backend, store=store, rank=0, world_size=1)

    yield making
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.fixture
def strategy(build: Build) -> Any:
    return build(accelerator="cpu_sim", devices=1, strategy="ddp").strategy


@pytest.mark.parametrize(
    ("written", "word"),
    [
        (None, "sum"),
        ("SUM", "sum"),
        ("avg", "mean"),
        ("Min", "min"),
        (dist.ReduceOp.AVG, "mean"),
        (dist.ReduceOp.PRODUCT, "product"),
        ("median", "median"),
    ],
)
def test_names_of_reductions(written: Any, word: str) -> None:
    assert reduction_word(written) == word


def test_a_reduction_that_nobody_knows_is_refused(strategy: Any, group: Callable[[str], None]) -> None:
    group("simccl")

    with pytest.raises(CollectiveError, match="unknown reduction 'median'; known: sum, mean, min, max, product"):
        strategy.all_reduce(torch.ones(1, device="cpu_sim"), reduce_op="median")


def test_cpu_tensor_is_reduced_on_the_chip(
    strategy: Any, group: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    group("simccl")
    reduce = Mock(side_effect=lambda tensor, *_: tensor.add_(1))
    monkeypatch.setattr(strategy.backend.collective, "all_reduce", reduce)
    logged = torch.ones(1, requires_grad=True)

    result = strategy.all_reduce(logged)

    assert reduce.call_args.args[0].device.type == "cpu_sim"
    assert result is logged
    assert logged.tolist() == [2.0]


def test_a_tensor_of_another_chip_is_not_reduced(strategy: Any, group: Callable[[str], None]) -> None:
    group("simccl")

    said = refusal(WrongDeviceError, strategy.all_reduce, torch.ones(1, device="meta"))

    assert said == "cannot reduce a tensor on 'meta' over 'simccl'. Fix: tensor.to('cpu_sim:0')"


def test_non_tensor_and_early_reduction_come_back(strategy: Any) -> None:
    tensor = torch.ones(1)

    assert strategy.all_reduce("anything") == "anything"
    assert strategy.all_reduce(tensor) is tensor


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("foreign", ["gloo", "fake"])
def test_a_users_group_over_another_library_fails(
    namespace: Namespace, build: Build, group: Callable[[str], None], foreign: str, sharded: bool
) -> None:
    """As one does whose library does not sum: tests/core/test_collective.py has the other errors."""
    importlib.import_module("torch.testing._internal.distributed.fake_pg")
    given: Any = "ddp"
    if sharded:
        more = {} if namespace.is_trainer else {"parallelize_fn": lambda model, _mesh: model}
        given = namespace.module("strategies").ModelParallelStrategy(**more)
    strategy = build(accelerator="cpu_sim", devices=1, strategy=given).strategy
    group(foreign)

    said = refusal(CollectiveError, strategy.setup_environment)

    assert "'cpu_sim' needs 'simccl', but the process group uses" in said
    assert "Fix: torch.distributed.init_process_group('simccl')" in said


def test_a_group_that_the_strategy_makes_is_tried_too(
    strategy: Any, group: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its library may return without reducing."""
    monkeypatch.setattr(strategy, "_start_process_group", lambda: group("simccl"))
    tried = Mock()
    monkeypatch.setattr(strategy.backend.collective, "assert_carries", tried)

    strategy.setup_environment()

    tried.assert_called_once_with(strategy.root_device)


@of_trainers
def test_a_wrong_seed_of_the_environment_is_named(strategy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks read it, each of them, and so does Lightning: by a bare int()."""
    monkeypatch.setenv("PL_GLOBAL_SEED", "abc")

    said = refusal(VariableError, strategy.setup_environment)

    assert said == "PL_GLOBAL_SEED='abc' is not from 0 to 4294967295. Fix: unset it, and call seed_everything()"


def test_torchruns_variable_alone_is_named(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "left over")

    with pytest.raises(
        ClusterError, match=r"^LOCAL_RANK is not set on .* unset TORCHELASTIC_RUN_ID if it is left over"
    ):
        build(accelerator="cpu_sim", devices=2, strategy="ddp")


def test_users_test_may_replace_torchs_process_group(
    namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(dist, "init_process_group", lambda name, **options: asked.append((name, options["timeout"])))
    given = namespace.module("strategies").DDPStrategy(timeout=timedelta(seconds=30))

    build(accelerator="cpu_sim", devices=1, strategy=given).strategy.setup_environment()

    assert asked == [("simccl", timedelta(seconds=30))]


def test_a_users_group_over_the_chips_library_is_used(strategy: Any, group: Callable[[str], None]) -> None:
    """And a barrier of its ranks raises no warning, which is an error here."""
    group("simccl")
    before = dist.group.WORLD

    strategy.setup_environment()
    strategy.barrier()
    dist.barrier()  # past the strategy, as torchmetrics does

    assert dist.group.WORLD is before


def test_the_groups_start_is_logged(build: Build, logged: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for accelerator, library in (("cpu", "gloo"), ("cpu_sim", "simccl")):
        logged.clear()
        monkeypatch.delenv("MASTER_PORT", raising=False)
        build(accelerator=accelerator, devices=1, strategy="ddp").strategy.setup_environment()
        dist.destroy_process_group()
        said.append([line.replace(library, "the library") for line in logged if "istributed" in line])

    assert said[0][0] == "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/1"
    assert said[1] == said[0]


@pytest.mark.parametrize("asked", ["ddp_notebook", "ddp_cpu_sim_fork"])
def test_ranks_are_not_forked_where_the_chip_denies_it(build: Build, asked: str, claims: Claims) -> None:
    claims(fork=no("its runtime starts threads when it is loaded"))

    said = refusal(UnsupportedError, build, accelerator="cpu_sim", devices=2, strategy=asked, capability="fork")

    assert said == (
        "'cpu_sim' cannot fork ranks: its runtime starts threads when it is loaded. Fix: strategy='ddp_spawn',"
        " or 'ddp' in a script"
    )


WRONG_CLUSTERS: list[tuple[dict[str, Any], dict[str, str], str]] = [
    (
        {"devices": 2},
        {"MASTER_PORT": "eighty"},
        r"^MASTER_PORT='eighty' on host .*: it is not a number. Fix: export one free port",
    ),
    (
        {"devices": 2},
        {"LOCAL_RANK": "2"},
        r"^LOCAL_RANK='2' on .*: with num_nodes=1 and devices=2 it must be from 0 to 1. Fix: ",
    ),
    ({"num_nodes": 2}, {}, "^MASTER_PORT is not set on host .* the 2 nodes would choose another port"),
]


@pytest.mark.parametrize(("asked", "variables", "message"), WRONG_CLUSTERS)
@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn"])
def test_a_wrong_cluster_is_refused_before_launch(
    build: Build,
    asked: dict[str, Any],
    variables: dict[str, str],
    message: str,
    strategy: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But not where nothing is launched, as a script is tried out."""
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)

    with pytest.raises(ClusterError, match=message):
        build(accelerator="cpu_sim", strategy=strategy, **{"devices": 1, **asked}).strategy.launcher.launch(print)
