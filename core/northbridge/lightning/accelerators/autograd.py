"""A check that autograd serves a chip that was loaded after torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from northbridge.errors import SoftwareLoadError

if TYPE_CHECKING:
    import torch

    from northbridge.backend import Backend

_NO_THREAD = "device_ready_queues_"
"""Text of autograd's error if it has no thread for a device."""

_NO_ACCELERATOR = "Cannot access accelerator device"
"""Text of torch's error if it has cached that there is no accelerator."""


def assert_autograd_serves(backend: Backend, index: int) -> None:
    """Raise :class:`SoftwareLoadError` unless gradients can be computed on the device ``index``, which is held.

    Autograd starts its device threads at the first ``backward()`` of the process, and never later. The chip's own
    errors pass through. Under ``torch.inference_mode``, which computes no gradients, it does nothing.
    """
    import torch

    if torch.is_inference_mode_enabled():  # leaving it would start autograd's threads, which the chip may not need
        return
    device = backend.device.root(index)
    try:
        with torch.enable_grad():
            leaf = torch.ones(1, device=device, dtype=torch.float32, requires_grad=True)
            torch.autograd.grad(leaf.sum(), leaf)  # not Tensor.backward, which scripts may count or replace
    except RuntimeError as error:
        reason = _explain(str(error), backend.name, device)
        if reason is None:
            raise
        raise SoftwareLoadError(reason, backend=backend.name) from error


def _explain(said: str, name: str, device: torch.device) -> str | None:
    """Return the reason why autograd does not serve ``device``; None for the chip's own errors."""
    first = f"`import northbridge; northbridge.load({name!r})` at the top of the script"
    if _NO_ACCELERATOR in said:
        return f"torch was asked for its accelerator before {name!r} was loaded, and keeps its answer. Fix: {first}"
    if _NO_THREAD not in said:
        return None
    if _backward_ran_before():
        return (
            f"{name!r} was loaded too late: a backward() ran before, and autograd serves only devices it knew then."
            f" Fix: {first}; if it is there already, add torch.ones(1, device={device.type!r})"
        )
    return f"autograd has no thread for '{device}': {name!r} tells torch of fewer devices. Fix: report it to its vendor"


def _backward_ran_before() -> bool:
    """Return True if a backward() ran in this process before the current one, which failed."""
    import torch

    runs: list[int] = []
    leaf = torch.ones(1, device="cpu", requires_grad=True)
    leaf.register_hook(lambda _: runs.append(torch._C._current_graph_task_id()))  # type: ignore[no-untyped-call]  # torch's
    torch.autograd.grad(leaf.sum(), leaf)
    return runs[0] > 1  # torch counts graph tasks from 0
