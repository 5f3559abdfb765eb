"""Effects of ``import habana_frameworks.torch``, which acquires no card."""

from __future__ import annotations

import sys
from pathlib import Path

import northbridge_cpu_sim
from northbridge_hpu.simulated import float8_operators, machine, markers, replaced
from northbridge_hpu.simulated.acquisition import acquire
from northbridge_hpu.simulated.mode import keeps_int64
from northbridge_hpu.simulated.record import set_variable, variable

_SOURCES = Path(__file__).with_name("csrc")


def load() -> None:
    """Make the simulated Gaudi torch's device, with all changes of the vendor's import to torch and the environment."""
    card = machine.card()
    if not keeps_int64():
        card = card.model_copy(update={"held_as": {**card.held_as, "int64": "int32"}})
    northbridge_cpu_sim.install(
        card,
        sources=_SOURCES if _SOURCES.is_dir() else None,
        acquire=acquire,
        module=sys.modules["habana_frameworks.torch.hpu"],
    )
    replaced.replace()
    float8_operators.define()
    markers.announce()
    set_variable("TORCHINDUCTOR_COMPILE_THREADS", "1")
    if variable("HABANA_PROFILE") is None:
        set_variable("HABANA_PROFILE", "profile_api_light")
