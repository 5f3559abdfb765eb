"""The names of ``torch.hpu.random``, which ``torch.hpu`` has too."""

from __future__ import annotations

from northbridge_hpu.simulated.generators import (
    default_generators as default_generators,
    get_rng_state as get_rng_state,
    get_rng_state_all as get_rng_state_all,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    manual_seed_all as manual_seed_all,
    seed as seed,
    seed_all as seed_all,
    set_rng_state as set_rng_state,
    set_rng_state_all as set_rng_state_all,
)
from northbridge_hpu.simulated.record import watch as _watch

_watch(__name__)
