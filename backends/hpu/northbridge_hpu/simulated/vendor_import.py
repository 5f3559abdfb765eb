"""Effects of ``import habana_frameworks.torch``, which acquires no card."""

from __future__ import annotations

import sys
from pathlib import Path

import northbridge_cpu_sim
from northbridge_cpu_sim import module as chip
from northbridge_hpu.simulated import (
    compiler,
    float8_operators,
    generators,
    machine,
    markers,
    metrics,
    metrics_files,
    replaced,
)
from northbridge_hpu.simulated.acquisition import acquire
from northbridge_hpu.simulated.fused import operators
from northbridge_hpu.simulated.mode import is_lazy, keeps_int64
from northbridge_hpu.simulated.record import set_variable, variable
from northbridge_hpu.simulated.settings import HPUSimSettings

_SOURCES = Path(__file__).with_name("csrc")


def load() -> None:
    """Make the simulated Gaudi torch's device, with all changes of the vendor's import to torch and the environment."""
    card = machine.card()
    library = card.collective.model_copy(update={"deadlines": HPUSimSettings.read().timeout == "honoured"})
    northbridge_cpu_sim.install(
        card.model_copy(update={"collective": library}),
        sources=_SOURCES if _SOURCES.is_dir() else None,
        acquire=acquire,
        held_as=lambda: {} if keeps_int64() else {"int64": "int32"},
        module=sys.modules["habana_frameworks.torch.hpu"],
    )
    generators.default_generators[:] = [chip.default_generator(0)]
    northbridge_cpu_sim.trace_operators(between_markers=is_lazy(), on_new=_write_changed)
    metrics.start()
    metrics_files.start()
    replaced.replace()
    operators.register()
    compiler.register()
    float8_operators.define()
    markers.announce()
    set_variable("TORCHINDUCTOR_COMPILE_THREADS", "1")
    if variable("HABANA_PROFILE") is None:
        set_variable("HABANA_PROFILE", "profile_api_light")


def _write_changed() -> None:
    metrics_files.write(metrics_files.Trigger.metric_change, changed="graph_compilation")
