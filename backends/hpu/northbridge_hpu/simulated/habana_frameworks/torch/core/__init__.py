"""The names of ``habana_frameworks.torch.core``."""

from __future__ import annotations

from northbridge_hpu.simulated.inference import (
    hpu_inference_initialize as hpu_inference_initialize,
    hpu_initialize as hpu_initialize,
    hpu_reset_env as hpu_reset_env,
    hpu_set_env as hpu_set_env,
    hpu_set_inference_env as hpu_set_inference_env,
    hpu_teardown_inference_env as hpu_teardown_inference_env,
)
from northbridge_hpu.simulated.markers import add_step_closure as add_step_closure, mark_step as mark_step
from northbridge_hpu.simulated.mode import is_lazy as is_lazy
from northbridge_hpu.simulated.record import watch as _watch

from .. import hpu as hpu  # noqa: TID252 - there is no absolute name that a type checker knows
from . import step_closure as step_closure

_watch(__name__)
