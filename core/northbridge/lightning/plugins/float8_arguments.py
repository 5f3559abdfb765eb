"""The arguments of float8 inference: its stage, and the library's configuration."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from northbridge.errors import ArgumentsError

STAGES = ("measure", "quantize", "load")

DTYPES = {"BF16": "bfloat16", "FP16": "float16", "FP32": "float32"}
"""The library's words, with torch's names: this module may be imported before torch has its dtypes."""


def read_config(config: Any) -> dict[str, Any]:
    """Return a copy of a configuration of the library's: a dict, the path of a JSON file, or an ``FP8Config``.

    Raises :class:`ArgumentsError` if it is something else.
    """
    if config is None:
        return {}
    if isinstance(config, (str, os.PathLike)):
        try:
            config = json.loads(Path(config).read_text())
        except (OSError, ValueError) as error:
            raise ArgumentsError(f"Float8Inference(config={str(config)!r}) cannot be read: {error}") from error
    elif hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        kind = type(config).__name__
        raise ArgumentsError(
            f"Float8Inference(config=…) is {kind}, not a configuration. Fix: a dict, the path of a"
            " JSON file with one, or an FP8Config"
        )
    return copy.deepcopy(dict(config))


def read_stage(stage: str | None, mode: Any) -> str:
    """Return the stage that the user asks for, or that the ``mode`` of a configuration means."""
    word = str(getattr(mode, "name", mode)).lower()
    asked = stage if stage is not None else word
    if asked not in STAGES:
        found = "" if stage is None else repr(stage)
        raise ArgumentsError(
            f"Float8Inference({found}): stage=, or the mode of config=, is one of {', '.join(map(repr, STAGES))}"
        )
    if word in (*STAGES, "shape") and word != asked:
        raise ArgumentsError(f"Float8Inference({asked!r}) contradicts the mode {mode!r} in config=. Fix: leave one out")
    return asked


def read_dtype(config: Mapping[str, Any]) -> str:
    """Return torch's name of a configuration's ``hp_dtype``; raises :class:`ArgumentsError` for an unknown one."""
    word = str(config.get("hp_dtype", "BF16")).upper()
    if word not in DTYPES:
        known = ", ".join(DTYPES)
        raise ArgumentsError(f"Float8Inference: hp_dtype={word!r} is not one of {known}")
    return DTYPES[word]
