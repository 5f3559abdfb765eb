"""Whether autograd serves a chip that came into the process after torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from northbridge.errors import SoftwareLoadError

if TYPE_CHECKING:
    import torch

    from northbridge.backend import Backend

_NO_THREAD = "device_ready_queues_"
"""Error of autograd if it has no thread for a device."""

_NO_ACCELERATOR = "Cannot access accelerator device"
"""Error of torch if it has cached that there is no accelerator."""


def assert_autograd_serves(backend: Backend, index: int) -> None:
    """Raise :class:`SoftwareLoadError` unless gradients can be computed on the device ``index``, which is held.

    Autograd starts a thread for each device when the first ``backward()`` of the process runs, and none later. Errors
    of the chip's own pass through. Under ``torch.inference_mode`` nothing is asked: no gradient can be computed there.
    """
    import torch

    if torch.is_inference_mode_enabled():  # to leave it would give autograd the threads that a chip may do without
        return
    device = backend.device.root(index)
    try:
        with torch.enable_grad():
            leaf = torch.ones(1, device=device, dtype=torch.float32, requires_grad=True)
            torch.autograd.grad(leaf.sum(), leaf)  # not Tensor.backward, which scripts count and replace
    except RuntimeError as error:
        reason = _explain(str(error), backend.name, device)
        if reason is None:
            raise
        raise SoftwareLoadError(reason, backend=backend.name) from error


def _explain(said: str, name: str, device: torch.device) -> str | None:
    """Return why autograd does not serve ``device``; None for an error of the chip's own."""
    first = f"`import northbridge; northbridge.load({name!r})` at the top of the script"
    if _NO_ACCELERATOR in said:
        return f"torch was asked for its accelerator before {name!r} was loaded, and keeps its answer. Fix: {first}"
    if _NO_THREAD not in said:
        return None
    if _backward_ran_before():
        return (
            f"{name!r} came too late: a backward() ran before, and autograd serves only devices it knew then."
            f" Fix: {first}; where it stands there already, add torch.ones(1, device={device.type!r})"
        )
    return f"autograd has no thread for '{device}': {name!r} tells torch of fewer devices. Fix: report it to its vendor"


def _backward_ran_before() -> bool:
    """Return whether a backward() ran in this process before the one that has just failed."""
    import torch

    runs: list[int] = []
    leaf = torch.ones(1, device="cpu", requires_grad=True)
    leaf.register_hook(lambda _: runs.append(torch._C._current_graph_task_id()))  # type: ignore[no-untyped-call]  # torch's
    torch.autograd.grad(leaf.sum(), leaf)
    return runs[0] > 1  # torch numbers them from 0
