"""The cards of this machine, as Intel's ``xpu-smi`` lists them."""

from __future__ import annotations

import json
from functools import cache

import northbridge


@cache
def cards() -> tuple[dict[str, object], ...] | None:
    """Return what ``xpu-smi discovery -j`` says about each card; None if the tool is not installed.

    Asked once per process. Raises :class:`northbridge.DetectionError` if it fails or prints something else.
    """
    text = northbridge.run_tool("xpu-smi", "discovery", "-j", backend="xpu")
    if text is None:
        return None
    try:
        return tuple({**each} for each in json.loads(text)["device_list"])
    except (ValueError, KeyError, TypeError) as error:
        raise northbridge.DetectionError(
            f"`xpu-smi discovery -j` printed no device_list: {text[:60]!r}. Fix: upgrade it", backend="xpu"
        ) from error
