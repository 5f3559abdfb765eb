"""The functions of torch that the vendor's import replaces, and their replacements."""

from __future__ import annotations

from northbridge_hpu.simulated.mode import is_lazy
from northbridge_hpu.simulated.record import variable
from northbridge_hpu.simulated.replaced import files, groups, migration, modules, profiler, seeds, streams


def replace() -> None:
    """Make the replacements of the vendor's import in this mode."""
    groups.replace()
    profiler.replace()
    seeds.replace()
    streams.replace()
    if is_lazy():
        files.replace()
        modules.replace()
        if all((variable(name) or "1") == "1" for name in ("PT_HPU_WEIGHT_SHARING", "EXPERIMENTAL_WEIGHT_SHARING")):
            modules.share_weights()
    if (variable("PT_HPU_GPU_MIGRATION") or "").lower() in {"1", "true"}:
        migration.replace()
