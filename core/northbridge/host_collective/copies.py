"""One collective call on the host's copies of a chip's tensors, and the way back to the chip."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import Work
from torch.futures import Future

from northbridge.errors import CollectiveError, NorthbridgeError, UnsupportedError

_CARRIED = frozenset(
    {
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int8,
        torch.uint8,
        torch.bool,
    }
)
"""The dtypes that Gloo knows."""

_KEPT_BYTES = 2**28
_SAID = re.compile(r"^\[[^ \]]+:\d+\] |\. This is typically .*")
"""What Gloo's errors say beside the reason: a line of its source, and advice to look at other ranks."""


class HostBuffers:
    """Host memory that later calls use again: the system gives new pages more slowly than a copy fills them."""

    def __init__(self, *, pinned: bool) -> None:
        self._pinned = pinned
        self._lock = threading.Lock()
        self._free: dict[int, list[Tensor]] = {}
        self._kept = 0

    def lend(self, size: int) -> Tensor:
        """Return a buffer of at least ``size`` bytes."""
        size = 1 << max(size - 1, 63).bit_length()
        with self._lock:
            if self._free.get(size):
                self._kept -= size
                return self._free[size].pop()
        with torch.inference_mode(False):  # calls outside of inference mode will write it
            return torch.empty(size, dtype=torch.uint8, pin_memory=self._pinned)

    def return_(self, buffers: Sequence[Tensor]) -> None:
        """Let later calls use ``buffers``."""
        with self._lock:
            for each in buffers:
                if self._kept + len(each) <= _KEPT_BYTES:
                    self._kept += len(each)
                    self._free.setdefault(len(each), []).append(each)


class HostCall:
    """The copies of one call's tensors. As a context, it turns Gloo's errors into ours.

    A tensor that is on the host, and that Gloo knows, is not copied.
    """

    def __init__(self, name: str, ranks: int, buffers: HostBuffers, *, reduces: bool = False) -> None:
        self._name = name
        self._ranks = ranks
        self._buffers = buffers
        self._reduces = reduces
        self._lent: list[Tensor] = []
        self._arriving: list[tuple[Tensor, Tensor]] = []
        self._lock = threading.Lock()
        self._copies = False
        self.is_delivered: bool = False

    def __enter__(self) -> HostCall:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        # An error of a copy is the chip's own, such as that its memory is full.
        if isinstance(error, RuntimeError) and not isinstance(error, CollectiveError) and not self._copies:
            raise self.explain(error) from error

    def send(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return copies of ``tensors``."""
        return [self._copy(each, sent=True, arrives=False) for each in tensors]

    def receive(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return memory for what arrives; :meth:`deliver` copies it into ``tensors``."""
        return [self._copy(each, sent=False, arrives=True) for each in tensors]

    def swap(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return copies of ``tensors``, into which :meth:`deliver` copies what arrives."""
        return [self._copy(each, sent=True, arrives=True) for each in tensors]

    def _copy(self, tensor: Tensor, *, sent: bool, arrives: bool) -> Tensor:
        self._check(tensor)
        is_carried = tensor.dtype in _CARRIED
        if is_carried and tensor.device.type == "cpu" and tensor.is_contiguous():
            return tensor
        as_bytes = self._lend(tensor.numel() * tensor.element_size())
        copy = as_bytes.view(tensor.dtype).view(tensor.shape)
        if sent:
            self._copies = True
            with torch.no_grad():
                try:
                    copy.copy_(tensor)
                except RuntimeError:  # torch's lazy device copies to new tensors alone
                    copy.copy_(tensor.cpu())
            self._copies = False
        if arrives:
            self._arriving.append((tensor, copy))
        return copy if is_carried else as_bytes

    def _lend(self, size: int) -> Tensor:
        self._lent.append(self._buffers.lend(size))
        return self._lent[-1][:size]

    def _check(self, tensor: Tensor) -> None:
        if tensor.layout is not torch.strided:
            raise self._unsupported("a sparse tensor", "to_dense()")
        if self._reduces and tensor.dtype not in _CARRIED:
            raise self._unsupported(str(tensor.dtype).removeprefix("torch."), "another dtype")

    def _unsupported(self, what: str, instead: str) -> UnsupportedError:
        return UnsupportedError(f"Gloo has no {self._name} of {what}. Fix: {instead}", capability="collective")

    def deliver(self) -> None:
        """Copy what has arrived to the chip, once; return when it is there."""
        with self._lock, torch.no_grad():
            for tensor, copy in self._arriving:
                with torch.inference_mode(tensor.is_inference()):
                    tensor.copy_(copy)  # not non_blocking: the next reader may be on another stream
            self._arriving.clear()
            self._buffers.return_(self._lent)
            self._lent.clear()
            self.is_delivered = True

    def explain(self, error: RuntimeError) -> CollectiveError | UnsupportedError:
        """Return our error for one of Gloo's."""
        said = _SAID.sub("", str(error).partition("\n")[0]).rstrip(".")
        if "not support" in said:  # by an older Gloo, or of a reduction
            return UnsupportedError(f"{self._name} over Gloo: {said}. Fix: another call", capability="collective")
        timed_out = re.search("timed? ?out", said, re.IGNORECASE) is not None
        fix = "see which rank is missing with `northbridge hang`" if timed_out else "see the other ranks' errors first"
        explained = CollectiveError(f"{self._name} among {self._ranks} ranks failed over Gloo: {said}. Fix: {fix}")
        explained.timed_out = timed_out
        return explained


class HostWork(Work):
    """A call that Gloo has begun; its results are on the chip after :meth:`wait`, or with the future."""

    def __init__(self, gloo: Any, call: HostCall, results: Sequence[Tensor] = ()) -> None:
        super().__init__()
        self._gloo = gloo
        self._call = call
        self._results = list(results)
        self._future: Future[Any] | None = None

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until the results are on the chip. Raises :class:`CollectiveError` if the call has failed."""
        with self._call:
            self._gloo.wait(timeout) if timeout else self._gloo.wait()
        self._call.deliver()
        return True

    def synchronize(self) -> None:
        """Wait until the results are on the chip."""
        self.wait()

    def is_completed(self) -> bool:
        """Return True if the call has ended; its results are then on the chip."""
        if not (self._call.is_delivered or self._gloo.is_completed()):
            return False
        with suppress(NorthbridgeError):  # wait() raises it
            self.wait()
        return True

    def is_success(self) -> bool:
        """Return True if the call has ended without an error."""
        return bool(self._gloo.is_success())

    def exception(self) -> Any:
        """Return Gloo's error, or None."""
        return self._gloo.exception()

    def get_future(self) -> Future[Any]:
        """Return the future of the results, which a thread of Gloo's copies to the chip."""
        future = self._future = self._future or self._gloo.get_future().then(self._finish)
        return future

    def _finish(self, ended: Future[Any]) -> list[Tensor]:
        with self._call:
            ended.value()
        self._call.deliver()
        return self._results

    def result(self) -> list[Tensor]:
        """Return the results."""
        return self._results

    def source_rank(self) -> int:
        """Return the rank from which a receive from any source has received."""
        return int(self._gloo._source_rank())

    _source_rank = source_rank


class HostWorks(Work):
    """The calls that torch has made together."""

    def __init__(self, works: Sequence[HostWork]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until the results of all calls are on the chip."""
        return all(each.wait(timeout) for each in self._works)

    def is_completed(self) -> bool:
        """Return True if all calls have ended."""
        return all(each.is_completed() for each in self._works)
