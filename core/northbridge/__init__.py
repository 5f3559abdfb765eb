"""Train with PyTorch Lightning on any vendor's accelerator.

This module holds only the public names. Each is resolved on first use (PEP 562), so that importing this package costs
milliseconds. The modules that a plugin needs for its declaration do not import torch, pydantic or Lightning.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from northbridge.acceleration import Acceleration as Acceleration, Graph as Graph
    from northbridge.backend import API_VERSION as API_VERSION, Backend as Backend
    from northbridge.bridge import Bridge as Bridge
    from northbridge.capabilities import (
        Capabilities as Capabilities,
        Claim as Claim,
        no as no,
        unknown as unknown,
        yes as yes,
    )
    from northbridge.collective import Collective as Collective
    from northbridge.device import Device as Device
    from northbridge.discovery.cards import device_users as device_users, run_tool as run_tool
    from northbridge.discovery.declared import get as get
    from northbridge.discovery.installed import Plugin as Plugin, installed as installed
    from northbridge.discovery.named import load as load
    from northbridge.discovery.present import available as available
    from northbridge.errors import (
        AmbiguousAcceleratorError as AmbiguousAcceleratorError,
        ArgumentsError as ArgumentsError,
        ArgumentValueError as ArgumentValueError,
        BackendConflictError as BackendConflictError,
        BackendDisabledError as BackendDisabledError,
        BackendError as BackendError,
        BackendNameError as BackendNameError,
        BackendNotFoundError as BackendNotFoundError,
        CheckpointCodeError as CheckpointCodeError,
        CheckpointError as CheckpointError,
        ClusterError as ClusterError,
        CollectiveError as CollectiveError,
        ContractError as ContractError,
        DetectionError as DetectionError,
        DeviceBusyError as DeviceBusyError,
        DevicesError as DevicesError,
        DevicesTypeError as DevicesTypeError,
        DeviceTypeTakenError as DeviceTypeTakenError,
        HardwareMissingError as HardwareMissingError,
        InstallationError as InstallationError,
        NamespaceError as NamespaceError,
        NorthbridgeError as NorthbridgeError,
        NotSimulatedError as NotSimulatedError,
        PluginAPIError as PluginAPIError,
        PluginContractError as PluginContractError,
        PluginError as PluginError,
        PluginHookError as PluginHookError,
        PluginImportError as PluginImportError,
        PluginNameError as PluginNameError,
        ReductionError as ReductionError,
        ReportError as ReportError,
        SettingsError as SettingsError,
        SimulationError as SimulationError,
        SoftwareLoadError as SoftwareLoadError,
        SoftwareMissingError as SoftwareMissingError,
        UnsupportedError as UnsupportedError,
        VariableError as VariableError,
        WeightsDisagreeError as WeightsDisagreeError,
        WrongDeviceError as WrongDeviceError,
    )
    from northbridge.float8.engine import Float8Engine as Float8Engine, Float8Quantizer as Float8Quantizer
    from northbridge.float8.torchao import TorchAO as TorchAO
    from northbridge.graphs.callables import GraphedCallable as GraphedCallable
    from northbridge.graphs.capture import GraphWarning as GraphWarning
    from northbridge.hook import hookimpl as hookimpl, lazy_names as lazy_names
    from northbridge.lightning.blocks import compile_blocks as compile_blocks, shard_blocks as shard_blocks
    from northbridge.lightning.data.buckets import (
        BucketBatchSampler as BucketBatchSampler,
        PaddingCollate as PaddingCollate,
        power_of_two_boundaries as power_of_two_boundaries,
        quantile_boundaries as quantile_boundaries,
    )
    from northbridge.lightning.plugins.float8 import Float8Precision as Float8Precision
    from northbridge.lightning.plugins.float8_inference import Float8Inference as Float8Inference
    from northbridge.lightning.vendor_names.names import (
        AcceleratorName as AcceleratorName,
        unsupported_names as unsupported_names,
    )
    from northbridge.lightning.vendor_names.plugins import (
        CheckpointIOName as CheckpointIOName,
        DeepSpeedPrecisionName as DeepSpeedPrecisionName,
        FSDPPrecisionName as FSDPPrecisionName,
        PrecisionName as PrecisionName,
        ProfilerName as ProfilerName,
    )
    from northbridge.lightning.vendor_names.strategies import (
        DDPStrategyName as DDPStrategyName,
        DeepSpeedStrategyName as DeepSpeedStrategyName,
        FSDPStrategyName as FSDPStrategyName,
        SingleDeviceStrategyName as SingleDeviceStrategyName,
    )
    from northbridge.process_record import Entry as Entry, note as note, record as record
    from northbridge.processes.environment import (
        environment_at_start as environment_at_start,
        keep_environment as keep_environment,
        may_compile as may_compile,
    )
    from northbridge.settings import Indices as Indices, Settings as Settings, VendorSettings as VendorSettings
    from northbridge.simulation import Simulation as Simulation


_IMPORT = re.compile(r"    from (northbridge\.[\w.]+) import (\([^)]*\)|.*)")


def _read_homes() -> dict[str, str]:
    """Return the module of each public name, as the imports above tell them to type checkers."""
    source: bytes = globals()["__loader__"].get_data(__file__)  # also from a zip file
    imports = _IMPORT.findall(source.decode())
    return {name: module for module, names in imports for name in re.findall(r"(\w+) as \1\b", names)}


_HOME = _read_homes()

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]  # the imports above say the same to it


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'northbridge' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
