"""What a plugin's module needs in order to be imported; apart, because whatever is imported here every plugin pays."""

from __future__ import annotations

import pluggy

hookimpl = pluggy.HookimplMarker("northbridge")
"""Marks a plugin's ``northbridge_backend()``."""
