"""The vendor's modules, by name, and the effects of their import, which acquires no card.

``contract.toml`` has the sources of the names that the backend relies on. The others were read in release 1.19.0 of
https://github.com/HabanaAI/gaudi-pytorch-bridge, under ``python_packages/habana_frameworks`` and their modules' names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

import northbridge_cpu_sim
from northbridge_cpu_sim import module as chip
from northbridge_hpu.simulated import (
    devices,
    float8,
    fused,
    graphs,
    machine,
    markers,
    metrics,
    profiler,
    replaced,
    streams,
)
from northbridge_hpu.simulated.machine import RECORD, HPUSimSettings, set_variable, variable

_SOURCES = Path(__file__).with_name("csrc")
_TORCH = "habana_frameworks.torch"


def _names(*objects: Callable[..., object], **others: object) -> dict[str, object]:
    return {**{each.__name__: each for each in objects}, **others}


def _defined_in(module: ModuleType) -> dict[str, object]:
    own = (each for each in vars(module).items() if getattr(each[1], "__module__", None) == module.__name__)
    return {name: value for name, value in own if not name.startswith("_")}


def _with(package: str, *modules: str) -> dict[str, object]:
    """Import modules of a package, as the package's own import does."""
    return {name: import_module(f"{package}.{name}") for name in modules}


def _autoload() -> Mapping[str, object]:
    # In the real package it is a function, and an entry point of torch. The stand-in is imported when torch runs those.
    return {"_torch": import_module(_TORCH)} if markers.autoloads() else {}


def _torch() -> Mapping[str, object]:
    parts = _with(_TORCH, "activity_profiler", "core", "distributed", "hpu", "utils")
    load()
    return {"__all__": sorted(parts), **parts}


def load() -> None:
    """Make the simulated Gaudi torch's device, with all changes of the vendor's import to torch and the environment."""
    card = machine.card()
    library = card.collective.model_copy(update={"deadlines": HPUSimSettings.read().timeout == "honoured"})
    northbridge_cpu_sim.install(
        card.model_copy(update={"collective": library}),
        sources=_SOURCES if _SOURCES.is_dir() else None,
        acquire=machine.acquire,
        held_as=lambda: {} if markers.keeps_int64() else {"int64": "int32"},
        module=import_module(f"{_TORCH}.hpu"),
    )
    devices.default_generators[:] = [chip.default_generator(0)]
    northbridge_cpu_sim.trace_operators(between_markers=markers.is_lazy())
    metrics.start()
    replaced.replace()
    fused.define_operator()
    markers.register_backend()
    float8.define_operators()
    set_variable("TORCHINDUCTOR_COMPILE_THREADS", "1")
    if variable("HABANA_PROFILE") is None:
        set_variable("HABANA_PROFILE", "profile_api_light")


_KEYS = ("WORLD_SIZE", "RANK", "LOCAL_RANK")


def initialize_distributed_hpu(
    world_size: int | None = None, rank: int | None = None, local_rank: int | None = None
) -> tuple[int, int, int]:
    """Complete the environment of a rank, choose its card, and return world size, rank and local rank.

    An unknown world size is 1, an unknown rank is -1. Raises AssertionError if HABANA_VISIBLE_MODULES lists too few.
    """
    given = (world_size, rank, local_rank)
    if None not in given:
        for key, value in zip(_KEYS, given, strict=True):
            set_variable(key, str(value))
    elif any(variable(key) is None for key in _KEYS):
        of_mpi = {key: variable(f"OMPI_COMM_WORLD_{key.removeprefix('WORLD_')}") for key in _KEYS}
        for key, text in of_mpi.items():
            if text is not None and None not in of_mpi.values():
                set_variable(key, text)
        for key, default in (("MASTER_ADDR", "localhost"), ("MASTER_PORT", "12345")):
            if variable(key) is None:
                set_variable(key, default)
    found = int(variable("WORLD_SIZE") or 1), int(variable("RANK") or -1), int(variable("LOCAL_RANK") or -1)
    _choose_card(world_size=found[0], local_rank=found[2])
    if found[1] != -1:
        set_variable("ID", str(found[1]))
    return found


def _choose_card(*, world_size: int, local_rank: int) -> None:
    emulated = (variable("PT_HPU_EMULATE_DISTRIBUTED") or "").lower() in {"1", "true"}
    if variable("HLS_MODULE_ID") is not None or local_rank == -1 or world_size == 1 or emulated:
        return
    visible = variable("HABANA_VISIBLE_MODULES")
    if visible is None:
        set_variable("HLS_MODULE_ID", str(local_rank))
        return
    modules = visible.split(",")
    assert local_rank < len(modules), (
        "There is not enough devices available for training. Please verify if HABANA_VISIBLE_MODULES is set correctly."
    )
    set_variable("HLS_MODULE_ID", modules[local_rank].strip())


def _hccl() -> Mapping[str, object]:
    initialize_distributed_hpu()
    return _names(initialize_distributed_hpu)


_GRAPHS = {name: getattr(graphs, name) for name in machine.GRAPHS}
_RANDOM = _names(
    devices.get_rng_state,
    devices.get_rng_state_all,
    devices.initial_seed,
    devices.manual_seed,
    devices.manual_seed_all,
    devices.seed,
    devices.seed_all,
    devices.set_rng_state,
    devices.set_rng_state_all,
)


def _hpu() -> Mapping[str, object]:
    return {
        **_with(f"{_TORCH}.hpu", "_utils", "graphs", "metrics", "random"),
        **(_GRAPHS if markers.is_lazy() else {}),
        **_defined_in(devices),
        **_defined_in(streams),
        "_lazy_init": devices._lazy_init,
        "_initialized": False,
    }


def load_habana_module() -> None:
    """Do nothing: the import of ``habana_frameworks.torch`` has loaded the bridge."""


STAND_INS = RECORD.watched(
    {
        "habana_frameworks": {},
        "habana_frameworks.autoload": _autoload,
        _TORCH: _torch,
        f"{_TORCH}.activity_profiler": _names(profiler.DebugActivity),
        f"{_TORCH}.core": lambda: {
            **_with(_TORCH, "hpu"),
            **_with(f"{_TORCH}.core", "step_closure"),
            **_names(markers.is_lazy, markers.mark_step),
        },
        f"{_TORCH}.core.step_closure": _names(markers._mark_step_if_lazy, markers.mark_step),
        f"{_TORCH}.distributed": lambda: _with(f"{_TORCH}.distributed", "hccl"),
        f"{_TORCH}.distributed.hccl": _hccl,
        f"{_TORCH}.dynamo": {},
        f"{_TORCH}.dynamo.compile_backend": {},
        f"{_TORCH}.dynamo.compile_backend.config": markers.add_options,
        f"{_TORCH}.hpex": lambda: _with(f"{_TORCH}.hpex", "experimental"),
        f"{_TORCH}.hpex.experimental": lambda: _with(f"{_TORCH}.hpex.experimental", "transformer_engine"),
        f"{_TORCH}.hpex.experimental.transformer_engine": lambda: {
            **_with(f"{_TORCH}.hpex.experimental.transformer_engine", "fp8", "recipe"),
            **_names(float8.Linear, float8.fp8_autocast),
        },
        # as optimum-habana at 1d8504c reads it
        f"{_TORCH}.hpex.experimental.transformer_engine.fp8": _names(
            float8.FP8GlobalStateManager, float8.is_fp8_enabled
        ),
        f"{_TORCH}.hpex.experimental.transformer_engine.recipe": _names(float8.DelayedScaling, float8.Format),
        f"{_TORCH}.hpex.normalization": _names(fused.FusedClipNorm),
        f"{_TORCH}.hpex.optimizers": _names(fused.FusedAdamW, fused.FusedSGD),
        f"{_TORCH}.hpu": _hpu,
        f"{_TORCH}.hpu._utils": _names(devices._get_device_index),
        f"{_TORCH}.hpu.graphs": _GRAPHS,
        f"{_TORCH}.hpu.metrics": _names(metrics.MetricNotFound, metrics.metric_global, metrics.metric_localcontext),
        f"{_TORCH}.hpu.random": {**_RANDOM, "default_generators": devices.default_generators},
        f"{_TORCH}.utils": {},
        f"{_TORCH}.utils.experimental": _names(
            float8._set_is_dynamic_quantization,
            machine._get_device_type,
            machine._is_fp16_supported,
            machine.synDeviceType,
            metrics.detect_recompilation_auto_model,
        ),
        f"{_TORCH}.utils.internal": _names(markers.is_lazy),
        f"{_TORCH}.utils.library_loader": _names(load_habana_module, is_habana_available=devices.is_available),
    }
)
