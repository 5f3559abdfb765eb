"""Which stages of DeepSpeed's ZeRO read a checkpoint that another stage saved."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from northbridge.errors import CheckpointError


def reject_other_stages(engine: Any) -> None:
    """Let ``engine`` raise :class:`CheckpointError` before it reads a checkpoint of a stage that its own cannot read.

    DeepSpeed 0.19.8 then ends with an assertion without a text, or with an error about a missing file.
    """
    engine.load_checkpoint = partial(_load, engine, engine.load_checkpoint)


def _load(engine: Any, load: Any, path: Any, *args: Any, load_optimizer_states: bool = True, **kwargs: Any) -> Any:
    stage, saved = engine.zero_optimization_stage(), _stage_of(Path(path))
    # Without optimizer states, stages 0 to 2 have the same file.
    same = (stage > 2) == (saved > 2) and (not load_optimizer_states or bool(stage) == bool(saved))
    if saved >= 0 and not same:
        raise CheckpointError(f"{path} is of ZeRO {saved}, which ZeRO {stage} cannot read. Fix: stage={saved}")
    return load(path, *args, load_optimizer_states=load_optimizer_states, **kwargs)


def _stage_of(folder: Path) -> int:
    """Return the stage that saved ``folder``, 2 for stage 1 too; -1 if its files do not tell."""
    latest = folder / "latest"
    tag = latest.read_text().strip() if latest.is_file() else "checkpoint"
    names = [each.name for each in (folder / tag).glob("*_states.pt")]
    if any(name.startswith("zero_pp_rank_") and name.endswith("_model_states.pt") for name in names):
        return 3
    if any(name.endswith("_optim_states.pt") for name in names):
        return 2
    return 0 if names else -1
