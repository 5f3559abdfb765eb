from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from bench.plugin import announce
from tests.core.lightning.conftest import Build, Claims, of_trainers, refusal

import northbridge
from northbridge.capabilities import Claim, no, yes
from northbridge.discovery import current
from northbridge.discovery.installed import names
from northbridge.errors import (
    BackendNotFoundError,
    ClusterError,
    CollectiveError,
    DevicesError,
    DeviceTypeTakenError,
    NorthbridgeError,
    UnsupportedError,
    WrongDeviceError,
)
from northbridge.lightning.classes import classes
from northbridge.lightning.connector import registry
from northbridge.lightning.namespaces import Namespace

pytestmark = pytest.mark.usefixtures("chip")


def strategies(namespace: Namespace) -> Any:
    return namespace.module("strategies")


# --- Which strategy an argument gives


@pytest.mark.parametrize("asked", ["auto", "single_device", "single_cpu_sim"])
@pytest.mark.parametrize(("devices", "index"), [(1, 0), ("1,", 1)])
def test_one_device_trains_on_ours(namespace: Namespace, build: Build, asked: str, devices: Any, index: int) -> None:
    strategy = build(accelerator="cpu_sim", devices=devices, strategy=asked).strategy

    assert type(strategy) is classes(namespace).single_device
    assert str(strategy.root_device) == f"cpu_sim:{index}"


DDP_NAMES = [
    ("auto", "popen", {}),
    ("DDP", "popen", {}),
    ("ddp_find_unused_parameters_true", "popen", {"find_unused_parameters": True}),
    ("ddp_spawn", "spawn", {}),
    ("ddp_fork", "fork", {}),
    ("ddp_notebook", "fork", {}),
    ("ddp_cpu_sim", "popen", {}),
    ("ddp_cpu_sim_find_unused_parameters_false", "popen", {"find_unused_parameters": False}),
    ("ddp_cpu_sim_spawn_find_unused_parameters_true", "spawn", {"find_unused_parameters": True}),
    ("ddp_cpu_sim_fork", "fork", {}),
    ("ddp_cpu_sim_notebook_find_unused_parameters_true", "fork", {"find_unused_parameters": True}),
]


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize(("asked", "start_method", "options"), DDP_NAMES)
def test_every_ddp_name_is_our_strategy_with_its_options(
    namespace: Namespace, build: Build, asked: str, start_method: str, options: dict[str, bool], devices: int
) -> None:
    strategy = build(accelerator="cpu_sim", devices=devices, strategy=asked).strategy

    if (asked, devices) == ("auto", 1):
        assert type(strategy) is classes(namespace).single_device
        return
    assert type(strategy) is classes(namespace).ddp
    assert strategy._start_method == start_method
    assert {key: strategy._ddp_kwargs[key] for key in options} == options
    assert [str(device) for device in strategy.parallel_devices] == ["cpu_sim:0", "cpu_sim:1"][:devices]


def test_a_device_on_each_node_is_ddp(namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_PORT", "29533")
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("NODE_RANK", "1")
    monkeypatch.setenv("LOCAL_RANK", "0")

    strategy = build(accelerator="cpu_sim", devices=1, num_nodes=2).strategy

    assert type(strategy) is classes(namespace).ddp
    assert (strategy.global_rank, strategy.world_size) == (1, 2)


def test_slurms_wrong_variable_is_named(namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lightning reads it wherever it is set, and no other of SLURM's need be."""
    monkeypatch.setenv("SLURM_NTASKS", "x")

    with pytest.raises(
        ClusterError, match=r"^SLURM_NTASKS='x' on host .*: it is not a number. Fix: start with srun, or unset"
    ):
        build(accelerator="cpu_sim", devices=1)

    own = namespace.fabric_module("plugins.environments").LightningEnvironment()
    assert build(accelerator="cpu_sim", devices=1, plugins=[own]).strategy.root_device.type == "cpu_sim"


@pytest.mark.parametrize("asked", ["auto", 1, "1", [3], "3,"], ids=repr)
def test_the_device_of_a_strategy_object_is_taken(namespace: Namespace, build: Build, asked: Any) -> None:
    given = strategies(namespace).SingleDeviceStrategy(device=torch.device("cpu_sim", 3))

    strategy = build(accelerator="cpu_sim", devices=asked, strategy=given).strategy

    assert strategy is given
    assert type(strategy) is classes(namespace).single_device
    assert str(strategy.root_device) == "cpu_sim:3"


def test_a_name_with_the_backend_in_it_picks_the_backend(namespace: Namespace, build: Build) -> None:
    ddp = build(strategy="ddp_cpu_sim", devices=2).strategy
    single = build(strategy="single_cpu_sim", devices=1).strategy

    assert (type(ddp), type(single)) == (classes(namespace).ddp, classes(namespace).single_device)
    assert ddp.accelerator.name() == single.accelerator.name() == "cpu_sim"


# --- The users' own objects


def test_stock_ddp_strategy_gets_our_class_and_keeps_arguments(namespace: Namespace, build: Build) -> None:
    stock = strategies(namespace).DDPStrategy(
        find_unused_parameters=True, timeout=timedelta(seconds=77), start_method="spawn", bucket_cap_mb=3
    )

    strategy = build(accelerator="cpu_sim", devices=2, strategy=stock).strategy

    assert strategy is stock
    assert type(strategy) is classes(namespace).ddp
    assert strategy._ddp_kwargs == {"find_unused_parameters": True, "bucket_cap_mb": 3}
    assert (strategy._timeout, strategy._start_method) == (timedelta(seconds=77), "spawn")


def test_an_accelerator_object_of_ours_is_as_good_as_the_name(namespace: Namespace, build: Build) -> None:
    own = importlib.import_module(namespace.home).Accelerator("cpu_sim")

    strategy = build(accelerator=own, devices=[1]).strategy

    assert strategy.accelerator is own
    assert str(strategy.root_device) == "cpu_sim:1"


def test_accelerator_of_an_absent_backend_is_refused(namespace: Namespace, build: Build) -> None:
    with pytest.raises(BackendNotFoundError, match="no backend 'cpu_simm' is installed"):
        build(accelerator=importlib.import_module(namespace.home).Accelerator("cpu_simm"))


# --- What is refused


def of(kind: str, *, name: str = "", module: str = "", **arguments: Any) -> Callable[[Namespace], Any]:
    """Make Lightning's strategy of this class; or of one that a user derives from it, with a name or a module."""

    def make(namespace: Namespace) -> Any:
        stock = getattr(strategies(namespace), kind)
        derived = type(name or "Patient", (stock,), {"__module__": module or __name__}) if name or module else stock
        return derived(**arguments)

    return make


def at(*indices: int) -> list[torch.device]:
    return [torch.device("cpu_sim", index) for index in indices]


CONTRADICT = "device='cpu_sim:3' contradicts devices={}. Fix: leave one out"
ABSENT = " of the strategy names device 99 of 'cpu_sim', but this machine has 8 (0 to 7)"
IMPOSSIBLE = "strategy={!r} cannot run on 'cpu_sim': {}. Fix: {{0.host}}(accelerator='cpu_sim', strategy='ddp')"
NO_DEEPSPEED = "strategy={!r} needs DeepSpeed, which is not installed. Fix: pip install deepspeed"
OTHERS = "strategy={0!r} is for {1!r}, not 'cpu_sim'. Fix: leave strategy= out, or write accelerator={1!r}"
ON_THE_CPU = "{} of Northbridge does not run on accelerator='cpu'. Fix: name a backend there"
XLA = "it is for XLA devices"
ONE_PROCESS = "only CUDA runs several devices in one process"

REFUSED: list[tuple[type[NorthbridgeError], Any, dict[str, Any], str]] = [
    (DevicesError, of("SingleDeviceStrategy", device="cpu_sim:3"), {"devices": [1]}, CONTRADICT.format("[1]")),
    (
        DevicesError,
        of("SingleDeviceStrategy", device="cpu_sim:3"),
        {},
        "SingleDeviceStrategy needs one device, but devices=2 selects 2. Fix: devices=1",
    ),
    (
        DevicesError,
        of("SingleDeviceStrategy", device="cpu_sim:99"),
        {"devices": "auto"},
        "device='cpu_sim:99'" + ABSENT,
    ),
    (
        DevicesError,
        lambda namespace: strategies(namespace).DDPStrategy(parallel_devices=at(0, 99)),
        {"devices": "auto"},
        "parallel_devices=['cpu_sim:0', 'cpu_sim:99']" + ABSENT,
    ),
    *(
        (
            DevicesError,
            asked,
            {},
            "strategy='single_cpu_sim' needs one device, but devices= selects 2. Fix: devices=1 or strategy='ddp'",
        )
        for asked in ("single_device", "single_cpu_sim")
    ),
    (
        WrongDeviceError,
        of("SingleDeviceStrategy", device="cpu"),
        {"devices": 1},
        (
            "accelerator='cpu_sim', but the strategy's root device is 'cpu'. Fix: leave strategy= out, or give it a"
            " 'cpu_sim' device"
        ),
    ),
    (
        CollectiveError,
        of("DDPStrategy", process_group_backend="gloo"),
        {},
        "process_group_backend='gloo': 'cpu_sim' needs 'simccl'. Fix: leave it out",
    ),
    (
        UnsupportedError,
        of("DDPStrategy", module="lightning_habana.pytorch.strategies"),
        {},
        (
            "strategy=Patient is not known to run on 'cpu_sim'. Fix: strategy='ddp', or derive it from"
            " {0.home}.DDPStrategy"
        ),
    ),
    (UnsupportedError, of("DDPStrategy", name="DeepSpeedStrategy"), {}, NO_DEEPSPEED.format("DeepSpeedStrategy")),
    (
        UnsupportedError,
        lambda namespace: type("Mine", (type(of("DDPStrategy", name="DeepSpeedStrategy")(namespace)),), {})(),
        {},
        NO_DEEPSPEED.format("Mine"),
    ),
    *(
        (UnsupportedError, asked, {"devices": 1}, NO_DEEPSPEED.format(asked))
        for asked in ("deepspeed", "deepspeed_stage_3_offload")
    ),
    *(
        (
            UnsupportedError,
            asked,
            {"devices": devices},
            IMPOSSIBLE.format(asked, XLA if "xla" in asked else ONE_PROCESS),
        )
        for asked, devices in (("dp", 1), ("xla", 2), ("xla_debug", 1), ("single_xla", 1))
    ),
    *(
        (UnsupportedError, asked, {"devices": 1, "capability": "strategy"}, OTHERS.format(asked, other))
        for asked, other in (
            ("ddp_hpu", "hpu"),
            ("DDP_HPU", "hpu"),
            ("ddp_sdaa_fork_find_unused_parameters_true", "sdaa"),
        )
    ),
    *(
        (UnsupportedError, asked, {"accelerator": "cpu", "devices": 1}, ON_THE_CPU.format(name))
        for asked, name in (
            ("ddp_cpu_sim", "DDPStrategy"),
            ("single_cpu_sim", "SingleDeviceStrategy"),
            (lambda namespace: classes(namespace).ddp(), "DDPStrategy"),
            (lambda namespace: classes(namespace).single_device(device="cpu_sim:0"), "SingleDeviceStrategy"),
            (lambda namespace: type("Mine", (classes(namespace).ddp,), {})(), "Mine"),
        )
    ),
    (
        UnsupportedError,
        lambda namespace: strategies(namespace).DDPStrategy(parallel_devices=at(0)),
        {"accelerator": "cpu", "devices": "auto"},
        "accelerator='cpu', but the strategy has devices of 'cpu_sim'. Fix: accelerator='cpu_sim'",
    ),
]


@pytest.mark.parametrize(("kind", "asked", "more", "message"), REFUSED)
def test_a_strategy_is_refused(
    namespace: Namespace, build: Build, kind: type[NorthbridgeError], asked: Any, more: dict[str, Any], message: str
) -> None:
    strategy = asked if isinstance(asked, str) else asked(namespace)

    said = refusal(kind, build, **{"accelerator": "cpu_sim", "devices": 2, **more}, strategy=strategy)

    assert said == message.format(namespace)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("cpu_simm", "Did you mean 'cpu_sim'?"),
        ("CPU_SIM", "Did you mean 'cpu_sim'?"),
        ("acme", "`northbridge list` says more"),
    ],
)
def test_a_name_that_nobody_has_is_refused_with_the_nearest(build: Build, asked: str, hint: str) -> None:
    said = refusal(BackendNotFoundError, build, accelerator=asked)

    assert said.startswith(
        f"no backend {asked!r} is installed; found {', '.join(names())}. {hint}"
        " (Lightning: You selected an invalid accelerator name"
    )


def test_a_name_of_another_distribution_is_refused_with_it(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = announce(tmp_path, "other", "other") / "entry_points.txt"
    entries.write_text("[northbridge.distributions]\nquartz = northbridge_quartz\n")
    monkeypatch.syspath_prepend(tmp_path)

    said = ". Fix: in a clone of Northbridge, pip install . ./backends/quartz (Lightning: You selected"
    with pytest.raises(BackendNotFoundError, match=re.escape(said)):
        build(accelerator="quartz", devices=1)


@pytest.mark.parametrize("asked", ["cpuu", "cuda ", "GPU", "mp"])
def test_name_like_lightnings_own_is_refused_by_lightning(build: Build, asked: str) -> None:
    with pytest.raises(ValueError, match="You selected an invalid accelerator name"):
        build(accelerator=asked)


@of_trainers
@pytest.mark.parametrize("way", ["argument", "plugin", "auto"])
def test_sync_batchnorm_is_refused_if_the_chip_denies_it(
    namespace: Namespace, build: Build, way: str, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims(sync_batchnorm=Claim("no", "its sums are not exact"))
    asked: dict[str, Any] = {"accelerator": "cpu_sim", "sync_batchnorm": True}
    if way == "plugin":
        asked = {"accelerator": "cpu_sim", "plugins": [namespace.module("plugins").TorchSyncBatchNorm()]}
    elif way == "auto":
        monkeypatch.setenv("NORTHBRIDGE_SIMULATE", "cpu_sim")
        asked = {"sync_batchnorm": True}

    said = refusal(UnsupportedError, build, **asked, devices=2, capability="sync_batchnorm")

    assert said == "'cpu_sim' does not support sync_batchnorm=True: its sums are not exact. Fix: leave it out"


@of_trainers
def test_sync_batchnorm_is_refused_if_lightning_forgets_it(namespace: Namespace, build: Build) -> None:
    strategy = strategies(namespace).ModelParallelStrategy()

    with pytest.raises(UnsupportedError, match=r"ignores sync_batchnorm=True. Fix: call .*convert_sync_batchnorm"):
        build(accelerator="cpu_sim", devices=2, strategy=strategy, sync_batchnorm=True)


@of_trainers
def test_a_users_own_plugin_for_batch_normalization_stays(namespace: Namespace, build: Build) -> None:
    plugin = type("Own", (namespace.module("plugins.layer_sync").TorchSyncBatchNorm,), {})()

    assert build(accelerator="cpu_sim", devices=2, plugins=[plugin]).strategy._layer_sync is plugin


@pytest.mark.parametrize(
    ("claim", "reason"),
    [(no("its memory cannot be shared"), "its memory cannot be shared"), (yes, "DeepSpeed has no accelerator for it")],
)
def test_a_chip_without_deepspeed_refuses_it(
    namespace: Namespace, build: Build, claims: Claims, monkeypatch: pytest.MonkeyPatch, claim: Claim, reason: str
) -> None:
    claims(deepspeed=claim)
    monkeypatch.setattr(northbridge.get("cpu_sim").acceleration, "deepspeed_accelerator", None)
    asked: dict[str, Any] = {"accelerator": "cpu_sim", "devices": 2, "strategy": "deepspeed_stage_2"}

    said = refusal(UnsupportedError, build, capability="deepspeed", **asked)

    assert said == IMPOSSIBLE.format("deepspeed_stage_2", reason).format(namespace)


def test_another_library_of_the_vendors_may_be_asked_for(
    namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(northbridge.load("cpu_sim").collective), "other_names", ("simlccl",), raising=False)
    other, wrong = (strategies(namespace).DDPStrategy(process_group_backend=each) for each in ("simlccl", "gloo"))
    asked = {"accelerator": "cpu_sim", "devices": 2}

    assert build(strategy=other, **asked).strategy.process_group_backend == "simlccl"
    with pytest.raises(CollectiveError, match=r"'gloo': 'cpu_sim' needs 'simccl' or 'simlccl'\. Fix: leave it out"):
        build(strategy=wrong, **asked)


# --- What stays Lightning's


@pytest.mark.parametrize(("devices", "strategy"), [(1, "SingleDeviceStrategy"), (2, "DDPStrategy")])
def test_the_cpu_is_lightnings_as_ever(namespace: Namespace, build: Build, devices: int, strategy: str) -> None:
    built = build(accelerator="cpu", devices=devices).strategy

    assert type(built) is getattr(strategies(namespace), strategy)
    assert str(built.root_device) == "cpu"


def someone_elses(namespace: Namespace, place: str) -> Any:
    """Return an accelerator of a user's own, whose devices are at ``place``."""
    stock: Any = namespace.module("accelerators").CPUAccelerator
    devices = staticmethod(lambda devices: [torch.device(place)] * int(devices))
    return type("Own", (stock,), {"get_parallel_devices": devices, "name": staticmethod(lambda: "own")})()


@pytest.mark.parametrize(("place", "count"), [("cuda:0", 2), ("xla:0", 0)], ids=["one that is here", "who knows"])
def test_where_the_chip_is_loaded_another_chip_is_refused(
    namespace: Namespace, build: Build, place: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But a user's accelerator may drive the CPU."""
    build(accelerator="cpu_sim", devices=1)
    single = strategies(namespace).SingleDeviceStrategy

    own = build(accelerator=someone_elses(namespace, "cpu"), devices=1, strategy=single())
    assert own.strategy.root_device.type == "cpu"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(DeviceTypeTakenError, match=r"^cannot use 'own': torch already runs on 'cpu_sim'"):
        build(accelerator=someone_elses(namespace, place), devices=1, strategy=single())


def test_a_test_may_pretend_another_chip(namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)

    host = build(accelerator=someone_elses(namespace, "cuda:0"), devices=2, strategy="ddp")

    assert [str(device) for device in host.strategy.parallel_devices] == ["cuda:0", "cuda:0"]


@pytest.fixture
def cuda_is_loaded_by_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs as torch counts them, in a process that has loaded a backend which drives them."""

    class TorchsOwn(northbridge.Device):
        type = "cuda"

    chip = northbridge.load("cpu_sim")
    ours = northbridge.Backend("nb_cuda", TorchsOwn(), chip.collective, chip.bridge)
    chip.bridge.backend = chip.name
    monkeypatch.setattr(current, "_up", [ours])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.mark.usefixtures("cuda_is_loaded_by_another_name")
@pytest.mark.parametrize("asked", ["cuda", "gpu"])
def test_lightning_chooses_a_chip_that_it_serves_too(namespace: Namespace, build: Build, asked: str) -> None:
    host = build(accelerator=asked, devices=[1])

    assert type(host.strategy) is strategies(namespace).SingleDeviceStrategy
    assert str(host.strategy.root_device) == "cuda:1"
    assert type(host.strategy.accelerator) is namespace.module("accelerators").CUDAAccelerator


@pytest.mark.usefixtures("cuda_is_loaded_by_another_name")
def test_a_third_accelerator_for_a_shared_chip_is_refused(namespace: Namespace, build: Build) -> None:
    said = refusal(
        UnsupportedError,
        build,
        accelerator=someone_elses(namespace, "cuda:0"),
        devices=1,
        strategy=strategies(namespace).SingleDeviceStrategy(),
    )

    assert said == "accelerator='own', but the strategy has devices of 'nb_cuda'. Fix: accelerator='nb_cuda'"


@pytest.mark.parametrize(("asked", "taken"), [({}, 1), ({"devices": -1}, 8)], ids=str)
def test_where_nobody_says_how_many_a_notebook_takes_one_device(
    namespace: Namespace, build: Build, asked: dict[str, int], taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several are forked from it."""
    monkeypatch.setattr(namespace.connector, "_IS_INTERACTIVE", True)
    told = Mock()
    monkeypatch.setattr(namespace.fabric_module("utilities.rank_zero"), "rank_zero_info", told)

    strategy = build(accelerator="cpu_sim", **asked).strategy

    assert len(getattr(strategy, "parallel_devices", None) or [strategy.root_device]) == taken
    assert getattr(strategy, "_start_method", "fork") == "fork"
    assert [call.args[0] for call in told.call_args_list if "notebook" in call.args[0]] == [
        (
            "one of 8 devices of 'cpu_sim' is used in a notebook by default; devices=8 uses all of them, each"
            " in a process forked from the notebook's"
        )
    ] * (not asked)


def test_no_metadata_is_read_for_a_lightning_strategy(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[None] = []
    monkeypatch.setattr(registry, "read_announced", lambda: reads.append(None))

    assert not registry.drives_a_chip_by_itself(strategies(namespace).DDPStrategy)
    assert reads == []
