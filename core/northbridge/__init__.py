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
        Within as Within,
        no as no,
        unknown as unknown,
        yes as yes,
    )
    from northbridge.collective import Collective as Collective
    from northbridge.device import Device as Device
    from northbridge.discovery.cards import device_users as device_users, run_tool as run_tool
    from northbridge.discovery.declared import get as get, load as load
    from northbridge.discovery.installed import Plugin as Plugin, installed as installed
    from northbridge.discovery.present import available as available
    from northbridge.errors import *  # noqa: F403 - each of them is public
    from northbridge.float8.engine import Float8Engine as Float8Engine, Float8Quantizer as Float8Quantizer
    from northbridge.float8.torchao import TorchAO as TorchAO
    from northbridge.graphs.callables import GraphedCallable as GraphedCallable
    from northbridge.graphs.capture import GraphWarning as GraphWarning
    from northbridge.hook import hookimpl as hookimpl, lazy_names as lazy_names
    from northbridge.host_collective.collective import HostCollective as HostCollective
    from northbridge.lightning.blocks import compile_blocks as compile_blocks, shard_blocks as shard_blocks
    from northbridge.lightning.buckets import (
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
    from northbridge.snapshots.recorder import Snapshots as Snapshots


_IMPORT = re.compile(r"    from (northbridge\.[\w.]+) import (\([^)]*\)|.*)")


def _read_homes() -> dict[str, str]:
    """Return the module of each public name, as the imports above tell them to type checkers."""
    homes = dict.fromkeys(re.findall(r"^class (\w+)", _read_source("errors"), re.MULTILINE), "northbridge.errors")
    for module, names in _IMPORT.findall(_read_source("__init__")):
        homes |= dict.fromkeys(re.findall(r"(\w+) as \1\b", names), module)
    return homes


def _read_source(module: str) -> str:
    file = __file__.removesuffix("__init__.py") + f"{module}.py"
    source: bytes = globals()["__loader__"].get_data(file)  # also from a zip file
    return source.decode()


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
