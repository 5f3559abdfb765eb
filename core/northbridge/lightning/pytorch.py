"""Northbridge's classes for the Trainer of ``lightning.pytorch``."""

from __future__ import annotations

from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import NAMESPACES

_ours = classes(NAMESPACES["lightning.pytorch"])

Accelerator = _ours.accelerator
SingleDeviceStrategy = _ours.single_device
DDPStrategy = _ours.ddp
MixedDDPStrategy = _ours.mixed_ddp
ModelParallelStrategy = _ours.model_parallel
FSDPStrategy = _ours.fsdp
FSDPPrecision = _ours.fsdp_precision
DeepSpeedStrategy = _ours.deepspeed
CheckpointIO = _ours.checkpoint_io
Float8Precision = _ours.float8_precision
Float8Inference = _ours.float8_inference
MpiexecEnvironment = _ours.mpiexec_environment
LayerSync = _ours.layer_sync
MultiProcessingLauncher = _ours.launcher
SubprocessScriptLauncher = _ours.script_launcher
CapturedStep = _ours.captured_step
WeightsAgreement = _ours.weights_agreement
RecompilationMonitor = _ours.recompilation_monitor
Snapshots = _ours.snapshots
