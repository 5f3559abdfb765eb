"""Table of each namespace's classes: our mixins, combined with Lightning's class."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from northbridge.errors import UnsupportedError
from northbridge.lightning.accelerators.accelerator import _AcceleratorMixin
from northbridge.lightning.callbacks.captured_step import _CapturedStepMixin
from northbridge.lightning.callbacks.recompilation import _RecompilationMonitorMixin
from northbridge.lightning.callbacks.snapshots import _SnapshotsMixin
from northbridge.lightning.callbacks.weights_agreement import _WeightsAgreementMixin
from northbridge.lightning.launchers import _MultiProcessingLauncherMixin, _SubprocessScriptLauncherMixin
from northbridge.lightning.namespaces import Classes, Namespace
from northbridge.lightning.plugins.checkpoint_io import _CheckpointIOMixin
from northbridge.lightning.plugins.float8 import Float8Precision
from northbridge.lightning.plugins.float8_inference import Float8Inference
from northbridge.lightning.plugins.layer_sync import _LayerSyncMixin
from northbridge.lightning.plugins.mpiexec import _MpiexecEnvironmentMixin
from northbridge.lightning.plugins.precision import _FSDPPrecisionMixin
from northbridge.lightning.strategies.chip import _FabricSingleDeviceMixin, _SingleDeviceMixin
from northbridge.lightning.strategies.ddp import _DDPMixin
from northbridge.lightning.strategies.deepspeed import _FabricDeepSpeedMixin, _TrainerDeepSpeedMixin
from northbridge.lightning.strategies.fsdp import _FabricFSDPMixin, _TrainerFSDPMixin
from northbridge.lightning.strategies.hosts import _FabricMixin, _TrainerMixin
from northbridge.lightning.strategies.mixed import _MixedDDPMixin
from northbridge.lightning.strategies.sharded import _FabricModelParallelMixin, _TrainerModelParallelMixin
from northbridge.lightning.versions import reason_against_uploads


@dataclass(frozen=True)
class Combination:
    """One class of ours in each namespace of ``hosts``: mixins, and a class of Lightning's below them."""

    field: str
    """Its field in :class:`Classes`."""

    name: str
    """Its name in ``namespace.home``, so that it pickles."""

    module: str
    """The module of Lightning's class in the namespace; empty for ``object`` and for a class of ours."""

    stock: str
    """Lightning's class, or the field of ours."""

    mixins: tuple[type, ...]
    hosts: tuple[Literal["Trainer", "Fabric"], ...] = ("Trainer", "Fabric")


_SINGLE = ("single_device", "SingleDeviceStrategy", "strategies", "SingleDeviceStrategy")
_DDP = ("ddp", "DDPStrategy", "strategies", "DDPStrategy")
_SHARDED = ("model_parallel", "ModelParallelStrategy", "strategies.model_parallel", "ModelParallelStrategy")
_FSDP = ("fsdp", "FSDPStrategy", "strategies", "FSDPStrategy")
_DEEPSPEED = ("deepspeed", "DeepSpeedStrategy", "strategies", "DeepSpeedStrategy")
_AGREEMENT = ("weights_agreement", "WeightsAgreement")

COMBINATIONS = (
    Combination("accelerator", "Accelerator", "accelerators", "Accelerator", (_AcceleratorMixin,)),
    Combination(*_SINGLE, (_TrainerMixin, _SingleDeviceMixin), ("Trainer",)),
    Combination(*_SINGLE, (_FabricSingleDeviceMixin,), ("Fabric",)),
    Combination(*_DDP, (_TrainerMixin, _DDPMixin), ("Trainer",)),
    Combination(*_DDP, (_FabricMixin, _DDPMixin), ("Fabric",)),
    Combination("mixed_ddp", "MixedDDPStrategy", "", "ddp", (_MixedDDPMixin,)),
    Combination(*_SHARDED, (_TrainerModelParallelMixin,), ("Trainer",)),
    Combination(*_SHARDED, (_FabricModelParallelMixin,), ("Fabric",)),
    Combination(*_FSDP, (_TrainerFSDPMixin,), ("Trainer",)),
    Combination(*_FSDP, (_FabricFSDPMixin,), ("Fabric",)),
    Combination("fsdp_precision", "FSDPPrecision", "plugins.precision.fsdp", "FSDPPrecision", (_FSDPPrecisionMixin,)),
    Combination(*_DEEPSPEED, (_TrainerDeepSpeedMixin,), ("Trainer",)),
    Combination(*_DEEPSPEED, (_FabricDeepSpeedMixin,), ("Fabric",)),
    Combination("float8_precision", "Float8Precision", "plugins", "Precision", (Float8Precision,)),
    Combination("float8_inference", "Float8Inference", "plugins", "Precision", (Float8Inference,)),
    Combination("checkpoint_io", "CheckpointIO", "plugins", "TorchCheckpointIO", (_CheckpointIOMixin,)),
    Combination(
        "mpiexec_environment",
        "MpiexecEnvironment",
        "plugins",
        "ClusterEnvironment",
        (_MpiexecEnvironmentMixin,),
    ),
    Combination(
        "script_launcher",
        "SubprocessScriptLauncher",
        "strategies.launchers.subprocess_script",
        "_SubprocessScriptLauncher",
        (_SubprocessScriptLauncherMixin,),
    ),
    Combination(
        "launcher",
        "MultiProcessingLauncher",
        "strategies.launchers.multiprocessing",
        "_MultiProcessingLauncher",
        (_MultiProcessingLauncherMixin,),
    ),
    Combination(*_AGREEMENT, "callbacks", "Callback", (_WeightsAgreementMixin,), ("Trainer",)),
    Combination(*_AGREEMENT, "", "object", (_WeightsAgreementMixin,), ("Fabric",)),
    Combination("captured_step", "CapturedStep", "callbacks", "Callback", (_CapturedStepMixin,), ("Trainer",)),
    Combination(
        "recompilation_monitor",
        "RecompilationMonitor",
        "callbacks",
        "Callback",
        (_RecompilationMonitorMixin,),
        ("Trainer",),
    ),
    Combination("snapshots", "Snapshots", "callbacks", "Callback", (_SnapshotsMixin,), ("Trainer",)),
    Combination(
        "layer_sync", "LayerSync", "plugins.layer_sync", "TorchSyncBatchNorm", (_LayerSyncMixin,), ("Trainer",)
    ),
)
"""Every class of ours that derives from a class of Lightning's."""


@cache
def classes(namespace: Namespace) -> Classes:
    """Return the classes for ``namespace``; its Lightning must be importable, and no malicious one installed."""
    if reason := reason_against_uploads():
        raise UnsupportedError(f"{namespace.name} is not used: {reason}", capability="lightning")
    rows = [row for row in COMBINATIONS if namespace.host in row.hosts]
    made: dict[str, Any] = {}
    for row in rows:
        made[row.field] = _combine(namespace, row, made)
    ours = Classes(**made)
    for cls in filter(None, vars(ours).values()):
        cls.siblings = ours
    return ours


def _combine(namespace: Namespace, row: Combination, made: dict[str, Any]) -> Any:
    stock = getattr(namespace.module(row.module), row.stock) if row.module else made.get(row.stock, object)
    attributes = {
        "__module__": namespace.home,
        "__doc__": row.mixins[-1].__doc__,
        "namespace": namespace,
        "stock_class": getattr(stock, "stock_class", stock),
    }
    return type(row.name, (*row.mixins, stock), attributes)
