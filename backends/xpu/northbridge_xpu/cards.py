"""The cards of this machine, as Intel's ``xpu-smi`` lists them."""

import json
from functools import cache

import northbridge


@cache
def cards() -> list[dict[str, object]] | None:
    """Return what ``xpu-smi discovery -j`` says of each card; None if it is not installed. Asked once per process."""
    text = northbridge.run_tool("xpu-smi", "discovery", "-j", backend="xpu")
    try:
        return None if text is None else [dict(card) for card in json.loads(text)["device_list"]]
    except (ValueError, KeyError, TypeError) as error:
        said = f"`xpu-smi discovery -j` printed no device_list: {text!r:.60}. Fix: upgrade it"
        raise northbridge.DetectionError(said, backend="xpu") from error
