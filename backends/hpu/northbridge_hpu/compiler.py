"""``hpu_backend`` of ``torch.compile``, if the vendor's software is not loaded, or in lazy mode does not register it.

torch imports this module, by its entry point in pyproject.toml, for a name that it does not know.
"""

from __future__ import annotations

from typing import Any

import northbridge


def __getattr__(name: str) -> Any:
    """Return the vendor's ``hpu_backend``; raise :class:`northbridge.UnsupportedError` if there is none."""
    if name != "hpu_backend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    bridge = northbridge.load("hpu").bridge
    from torch._dynamo.backends import registry

    registered: Any = registry._COMPILER_FNS.pop(name, None)  # torch registers again what it gets here
    reason = bridge.missing_compile_backends.get(name) or "the vendor's software has not registered it"
    if registered is None:
        raise northbridge.UnsupportedError(
            f"torch.compile(backend={name!r}): {reason}. Fix: leave torch.compile out", capability="compile"
        )
    return registered
