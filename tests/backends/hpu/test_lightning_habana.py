"""Beside the archived package, and instead of it: its names, and what became of them."""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.strategies import DeepSpeedStrategy
from tests.core.conftest import Install, install as install

import northbridge
import northbridge_hpu
import northbridge_hpu.fabric
from northbridge.errors import ArgumentValueError, UnsupportedError
from northbridge.lightning.vendor_names import names


@pytest.fixture(autouse=True)
def nothing_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_warned", set())


def test_a_precision_is_taken_by_every_word_that_it_had() -> None:
    """It is called otherwise for a Fabric."""
    for word in ("32", "32-true", "bf16", "bf16-mixed", "16-mixed"):
        meant = {"32": "32-true", "bf16": "bf16-mixed"}.get(word, word)
        assert northbridge_hpu.HPUPrecisionPlugin(word).precision == meant
        assert northbridge_hpu.fabric.HPUPrecision(precision=word).precision == meant
    assert northbridge_hpu.HPUPrecisionPlugin("bf16-mixed", device="hpu").device == "hpu"
    with pytest.raises(ArgumentValueError, match=r"HPUPrecisionPlugin\(device='cuda'\) is for 'hpu'"):
        northbridge_hpu.HPUPrecisionPlugin("bf16-mixed", "cuda")


@pytest.mark.parametrize("home", [northbridge_hpu, northbridge_hpu.fabric])
def test_a_name_that_never_was_is_an_attribute_error(home: Any) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Whatever'"):
        _ = home.Whatever


def test_a_strategys_name_is_the_same_before_a_trainer_has_it() -> None:
    """lightning-Habana's own tests ask for it; what else names answer is in the core's test_draft.py."""
    for name, word in {"SingleHPU": "single", "HPUParallel": "parallel", "HPUDDP": "ddp", "HPUFSDP": "fsdp"}.items():
        kind: Any = getattr(northbridge_hpu, f"{name}Strategy")
        host: Any = Trainer(accelerator="hpu", devices=1, strategy=kind(), logger=False)
        assert kind().strategy_name == kind.strategy_name == host.strategy.strategy_name == f"hpu_{word}"


def test_deepspeed_has_no_float8() -> None:
    end = ": Northbridge has no float8 with DeepSpeed. Fix: HPUPrecisionPlugin('fp8') with strategy='hpu_ddp'"
    kind: Any = northbridge_hpu.HPUDeepSpeedPrecisionPlugin
    mixed = kind(precision="bf16")

    with pytest.raises(UnsupportedError) as caught:
        kind("fp8", replace_layers=True)
    assert str(caught.value) == f"HPUDeepSpeedPrecisionPlugin('fp8'){end}"
    with pytest.raises(UnsupportedError) as caught:
        mixed.convert_modules(torch.nn.Linear(1, 1), inference=True)
    assert str(caught.value) == f"HPUDeepSpeedPrecisionPlugin.convert_modules(){end}"
    assert (mixed.precision, mixed.fp8_inference_available) == ("bf16-mixed", False)


def test_an_fsdp_strategy_answers_before_a_trainer_has_it() -> None:
    """lightning-Habana's own tests ask these questions too."""
    from torch.distributed.fsdp import CPUOffload, MixedPrecision, ShardingStrategy

    config = MixedPrecision(param_dtype=torch.bfloat16)
    strategy = northbridge_hpu.HPUFSDPStrategy(cpu_offload=True, mixed_precision=config, sharding_strategy="NO_SHARD")
    precision = northbridge_hpu.HPUFSDPPrecision("bf16-mixed", "hpu")

    assert strategy.cpu_offload == CPUOffload(offload_params=True)
    assert strategy.mixed_precision_config == config
    assert strategy.sharding_strategy == ShardingStrategy.NO_SHARD
    assert northbridge_hpu.HPUFSDPStrategy(precision_plugin=precision).precision_plugin.precision == "bf16-mixed"
    assert precision.mixed_precision_config.reduce_dtype == torch.bfloat16
    with precision.forward_context():
        assert torch.get_autocast_dtype("hpu") == torch.bfloat16
    with pytest.raises(ArgumentValueError, match=r"'64-true'\) is not a precision; known: 32-true"):
        northbridge_hpu.HPUFSDPPrecision("64-true")


# --- The page on migration

SHARDED = (
    "accelerator parallel_devices cluster_environment process_group_backend timeout cpu_offload mixed_precision"
    " auto_wrap_policy activation_checkpointing activation_checkpointing_policy sharding_strategy state_dict_type"
)
OFFLOADED = (
    "accelerator zero_optimization stage remote_device offload_optimizer offload_parameters offload_params_device"
    " nvme_path params_buffer_count params_buffer_size max_in_cpu offload_optimizer_device optimizer_buffer_count"
    " block_size queue_depth single_submit overlap_events thread_count pin_memory sub_group_size"
    " contiguous_gradients overlap_comm allgather_partitions reduce_scatter allgather_bucket_size"
    " reduce_bucket_size zero_allow_untested_optimizer logging_batch_size_per_gpu config logging_level"
    " parallel_devices cluster_environment loss_scale initial_scale_power loss_scale_window hysteresis"
    " min_loss_scale partition_activations cpu_checkpointing contiguous_memory_optimization"
    " synchronize_checkpoint_boundary load_full_weights precision_plugin process_group_backend"
)
ONE = "device accelerator checkpoint_io"
SEVERAL = "accelerator parallel_devices cluster_environment checkpoint_io process_group_backend"
HOOKS = "ddp_comm_state ddp_comm_hook ddp_comm_wrapper model_averaging_period"
LAYERS = "precision device recipe replace_layers"

TRAINERS = {
    "HPUAccelerator": "",
    "SingleHPUStrategy": f"{ONE} precision_plugin",
    "HPUParallelStrategy": f"{SEVERAL} precision_plugin",
    "HPUDDPStrategy": f"{SEVERAL} {HOOKS} precision_plugin",
    "HPUCheckpointIO": "",
    "HPUPrecisionPlugin": LAYERS,
    "HPUProfiler": (
        "dirpath filename group_by_input_shapes export_to_chrome row_limit sort_by_key record_module_names"
    ),
    "HPUDataModule": (
        "train_dir val_dir num_workers normalize seed batch_size train_transforms val_transforms pin_memory shuffle"
        " drop_last distributed"
    ),
    "HPUFSDPStrategy": f"{SHARDED} checkpoint_io precision_plugin",
    "HPUFSDPPrecision": LAYERS,
    "HPUDeepSpeedStrategy": OFFLOADED,
    "HPUDeepSpeedPrecisionPlugin": "precision device",
}
FABRICS = {
    "HPUAccelerator": "",
    "SingleHPUStrategy": f"{ONE} precision",
    "HPUParallelStrategy": f"{SEVERAL} precision timeout start_method",
    "HPUDDPStrategy": f"{SEVERAL} precision timeout start_method",
    "HPUCheckpointIO": "",
    "HPUPrecision": "precision device",
    "HPUFSDPStrategy": f"{SHARDED} precision",
    "HPUFSDPPrecision": LAYERS,
}
"""The public classes of lightning-Habana with their arguments: read from 1.6.0 on PyPI, and 1.7.0rc0 at
https://github.com/Lightning-AI/lightning-Habana/tree/5549fa9."""

CLASSES = [
    *((northbridge_hpu, name, args) for name, args in TRAINERS.items()),
    *((northbridge_hpu.fabric, name, args) for name, args in FABRICS.items()),
]
UNSUPPORTED = {"HPUDataModule"}


def page() -> str:
    return (Path(__file__).parents[3] / "docs" / "from-lightning-habana.md").read_text()


def lines(heading: str) -> list[str]:
    """Return the rows of the table in the section of the page."""
    section = page().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| `")]


def words(text: str) -> set[str]:
    return set(re.findall(r"`([\w./]+)`", text))


@pytest.mark.parametrize(("home", "name", "arguments_"), CLASSES)
def test_each_class_has_its_line_with_each_argument(home: Any, name: str, arguments_: str) -> None:
    (line,) = [line for line in lines("Each class and argument") if name in words(line.split("|")[1])]
    said = words(line)
    if name == "HPUDDPStrategy":
        said |= words(next(line for line in lines("Each class and argument") if line.startswith("| `HPUParallel")))
    if "those of Lightning's `DeepSpeedStrategy`" in line:
        said |= set(inspect.signature(DeepSpeedStrategy).parameters)

    assert set(arguments_.split()) - said == set()


@pytest.mark.filterwarnings("ignore:HPUFSDPPrecision.*has no meaning any more:UserWarning")
@pytest.mark.parametrize(("home", "name", "arguments_"), CLASSES)
def test_each_class_takes_each_argument_that_it_had(home: Any, name: str, arguments_: str) -> None:
    if name in UNSUPPORTED:
        with pytest.raises(UnsupportedError, match=rf"^{name}\b.*Fix: "):
            getattr(home, name)(**dict.fromkeys(arguments_.split()))
    else:
        precision = "bf16-mixed" if "FSDP" in name or "DeepSpeed" in name else "fp8"
        values = {"precision": precision, "device": None, "process_group_backend": "hccl"}
        made = getattr(home, name)(
            **{each: values.get(each) for each in arguments_.split() if "trategy" not in name or each != "precision"}
        )
        assert isinstance(made, getattr(home, name))


def test_each_name_on_the_page_can_be_imported() -> None:
    names = words(" ".join(line.split("|")[1] for line in lines("Each class and argument")))

    assert len(names) > 12
    for name in names:
        home = "northbridge_hpu.fabric" if name == "HPUPrecision" else "northbridge_hpu"
        assert pkgutil.resolve_name(f"{home}:{name}") is not None
    written = re.findall(r"`(from northbridge_hpu[\w.]* import [\w, ]+)`", page())
    assert len(written) > 8
    for line in written:
        exec(line, {})


def test_each_method_of_the_accelerator_is_there() -> None:
    methods = words(page().partition("The methods of `HPUAccelerator` are the same: ")[2].partition(". Its")[0])

    assert len(methods) == 10
    assert [name for name in methods if not callable(getattr(northbridge_hpu.HPUAccelerator(), name, None))] == []


# --- On the simulated Gaudi

ASKED = """
import json, os, warnings
import torch
import lightning_habana
lightning_habana.register()
from lightning.pytorch import Trainer
from lightning.fabric import Fabric

from northbridge_hpu import HPU_AVAILABLE, HPUAccelerator, HPUDDPStrategy, HPUParallelStrategy, HPUPrecisionPlugin
from northbridge_hpu import HPUCheckpointIO, SingleHPUStrategy

answers = [HPU_AVAILABLE, HPUAccelerator.is_available(), HPUAccelerator.auto_device_count(),
           HPUAccelerator.parse_devices("2"), list(map(str, HPUAccelerator.get_parallel_devices(2))),
           HPUAccelerator.get_device_name(), HPUAccelerator.is_lazy()]
held = [name for name in os.listdir("/proc/self/fd") if "accel/accel" in os.path.realpath(f"/proc/self/fd/{name}")]
quiet = dict(logger=False, enable_checkpointing=False, precision="bf16-mixed")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    plain = Trainer(accelerator="hpu", devices=2, strategy="hpu_parallel", **quiet)
said = [str(each.message) for each in caught if "lightning_habana" in str(each.message)]
named = Trainer(accelerator=HPUAccelerator(), devices=2, strategy=HPUParallelStrategy(), **quiet)
single = Trainer(devices=1, strategy="hpu_single", **quiet)
known = [[isinstance(trainer.accelerator, HPUAccelerator), isinstance(trainer.strategy, HPUDDPStrategy),
          isinstance(trainer.strategy, HPUParallelStrategy), isinstance(trainer.strategy, SingleHPUStrategy),
          isinstance(trainer.strategy.checkpoint_io, HPUCheckpointIO),
          isinstance(trainer.precision_plugin, HPUPrecisionPlugin)] for trainer in (named, plain, single)]
print("\\n" + json.dumps([answers, held, known, said]))
"""


def test_a_run_is_known_by_its_names_beside_lightning_habana(install: Install) -> None:
    environ = {"NORTHBRIDGE_SIMULATE": "hpu", "NORTHBRIDGE_HPU_SIM_RELEASE": "1.22"}
    child = install("lightning_habana").python(ASKED, **environ)

    assert child.returncode == 0, child.stderr
    answers, held, known, said = json.loads(child.stdout.splitlines()[-1])
    assert answers == [True, True, 8, [0, 1], ["hpu:0", "hpu:1"], "GAUDI2", False]
    (told,) = said
    assert told == (
        f"accelerator='hpu' is served by backend 'hpu' (northbridge-hpu {northbridge.installed()[0].version});"
        " 'lightning_habana' is installed too, and is not used: pip uninstall lightning-habana"
    )
    assert held == []  # what the accelerator's class is asked takes no card
    several = [True, True, True, False, True, True]
    assert known == [several, several, [True, False, False, True, True, True]]
