"""The backend that this process runs on: torch serves one accelerator per process."""

from __future__ import annotations

from northbridge.backend import Backend

_up: list[Backend] = []
_put_into_torch: list[object] = []


def loaded() -> Backend | None:
    """Return the backend whose software this process has loaded; torch serves one accelerator per process."""
    return _up[0] if _up else None


def is_vendors(function: object) -> bool:
    """Return True if ``function``, found in torch, comes from the software that this process has loaded."""
    packages = {backend.bridge.package for backend in _up}
    modules = getattr(function, "__module__", None), getattr(function, "__globals__", {}).get("__name__")
    return function in _put_into_torch or any(str(each).partition(".")[0] in packages for each in modules)


def note_loaded(backend: Backend) -> None:
    """Note that this process runs on ``backend`` from here on; its software is loaded."""
    _up.append(backend)


def note_put_into_torch(*functions: object) -> None:
    """Note ``functions`` with which the backend's software has replaced torch's."""
    _put_into_torch.extend(functions)
