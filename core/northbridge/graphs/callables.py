"""A function or module that is captured for each signature that it is called with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import Any, Literal

import torch

from northbridge.backend import Backend
from northbridge.discovery.current import loaded
from northbridge.errors import ArgumentsError, UnsupportedError
from northbridge.graphs.capture import CapturedCall, GraphWarning
from northbridge.graphs.signature import flatten, reject_elsewhere, reject_hooks, signature_of


class GraphedCallable:
    """Capture ``function`` once for each signature of its arguments, and replay it, forward and backward.

    ``function`` is a module, a method of a module, or a function of tensors. A signature is the shapes, dtypes and
    devices of the tensors, all other values, the module's training modes, and the modes of gradients and autocast.
    A call returns copies of the graph's outputs. A call with a new signature after ``max_graphs`` others runs without
    a graph, with one :class:`GraphWarning`; with ``beyond="error"`` it raises :class:`UnsupportedError`.

    Raises :class:`UnsupportedError` if the chip denies ``graphs``, or if a module has hooks, and
    :class:`ArgumentsError` for another argument that is not allowed.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        max_graphs: int = 10,
        beyond: Literal["warn", "error"] = "warn",
        backend: Backend | None = None,
    ) -> None:
        if not callable(function):
            kind = type(function).__name__
            raise ArgumentsError(f"a {kind} cannot be called. Fix: pass a function or a module")
        if max_graphs < 1:
            raise ArgumentsError(f"max_graphs={max_graphs} is not 1 or more")
        if beyond not in ("warn", "error"):
            raise ArgumentsError(f"beyond={beyond!r} is not 'warn' or 'error'")
        self.function = function
        self.max_graphs = max_graphs
        self.beyond = beyond
        self.backend: Backend = graphing_backend(backend)
        owner = function if isinstance(function, torch.nn.Module) else getattr(function, "__self__", None)
        self._module = owner if isinstance(owner, torch.nn.Module) else None
        self._captured: dict[Hashable, CapturedCall] = {}
        self._warned = False

    @property
    def graphs(self) -> int:
        """Number of signatures that have been captured."""
        return len(self._captured)

    def reset(self) -> None:
        """Drop all graphs, and the memory that they keep."""
        self._captured.clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the function's result for these arguments, from a graph if one has their signature."""
        arguments = args, kwargs
        signature = signature_of(arguments), self._modes()
        captured = self._captured.get(signature)
        if captured is None:
            if self.graphs >= self.max_graphs:
                return self._run_beyond(args, kwargs)
            kind = self.backend.device.type
            reject_elsewhere("an argument", flatten(arguments)[0], kind)
            if self._module is not None:
                reject_elsewhere("a parameter or buffer", [*self._module.parameters(), *self._module.buffers()], kind)
                reject_hooks(self._module, self.backend)
            captured = CapturedCall(self.backend, self.function, self._module, arguments)
            self._captured[signature] = captured
        return captured(flatten(arguments)[0])

    def _modes(self) -> Hashable:
        kind = self.backend.device.type
        parts = tuple(each.training for each in self._module.modules()) if self._module is not None else ()
        autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        return parts, torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast

    def _run_beyond(self, args: Any, kwargs: Any) -> Any:
        said = (
            f"a call has another signature than the {self.max_graphs} that were captured (max_graphs={self.max_graphs})"
        )
        fix = "Fix: pad or bucket the inputs to fewer shapes, or raise max_graphs"
        if self.beyond == "error":
            raise UnsupportedError(f"{said}. {fix}", capability="graphs")
        if not self._warned:
            self._warned = True
            warnings.warn(f"{said}: it runs without a graph. {fix}", GraphWarning, stacklevel=3)
        return self.function(*args, **kwargs)


def graphing_backend(backend: Backend | None = None) -> Backend:
    """Return ``backend``, by default the one that this process has loaded, if it does not deny ``graphs``.

    Raises :class:`UnsupportedError`.
    """
    backend = backend or loaded()
    if backend is None:
        raise UnsupportedError(
            "no chip is loaded, which could capture a graph. Fix: northbridge.load() one first", capability="graphs"
        )
    claim = backend.present_capabilities().graphs
    if claim.denied:
        name, why = backend.name, claim.reason
        raise UnsupportedError(f"{name!r} cannot capture graphs: {why}. Fix: run without graphs", capability="graphs")
    return backend
