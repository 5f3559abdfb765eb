"""Whether autograd serves a chip that came into the process after torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from northbridge.errors import SoftwareLoadError

if TYPE_CHECKING:
    from northbridge.backend import Backend


def assert_autograd_serves(backend: Backend, index: int) -> None:
    """Raise :class:`SoftwareLoadError` unless ``backward()`` works on the device ``index``, which this process holds.

    Autograd starts a thread for each device when the first ``backward()`` of the process runs, and none later. Errors
    of the chip's own pass through.
    """
    import torch

    answer = torch.ones(1, device=backend.device.root(index), requires_grad=True).sum()
    try:
        answer.backward()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if not any(words in str(error) for words in _WITHOUT_A_THREAD):
            raise
        raise SoftwareLoadError(
            f"{backend.name!r} came into this process too late: autograd had run a backward() before, and serves no"
            f" device that it did not know then ({str(error).splitlines()[0]}); load it first, with"
            f" `import northbridge; northbridge.load({backend.name!r})` at the top of the script",
            backend=backend.name,
        ) from error


_WITHOUT_A_THREAD = ("device_ready_queues_", "Cannot access accelerator device")
"""What autograd says where it has no thread for a device; any other error is the chip's own."""
