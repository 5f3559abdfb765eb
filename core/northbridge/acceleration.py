"""What a chip offers beyond torch's own operators: graphs, fused optimizers, compile options, profiling, counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from northbridge.device import is_renamed
from northbridge.errors import UnsupportedError
from northbridge.float8.engine import Float8Engine

if TYPE_CHECKING:
    import torch
    from torch.profiler import ProfilerActivity
    from torch.utils.data import Dataset


class Graph(Protocol):
    """Work that is captured once and replayed, with the verbs of ``torch.accelerator.Graph``."""

    def capture_begin(self) -> None:
        """Begin to capture the work of the current stream."""

    def capture_end(self) -> None:
        """End the capture. The graph can be replayed from then on."""

    def replay(self) -> None:
        """Do the captured work again, on the memory that it used while it was captured."""

    def reset(self) -> None:
        """Drop the captured work. The graph can capture again."""


class Acceleration:
    """What a chip offers beyond torch's own operators.

    The optional fourth part of a :class:`northbridge.Backend`. Each default is right for a chip that has nothing of its
    own: it does what torch does, or raises :class:`UnsupportedError`. Northbridge calls nothing here before
    ``Bridge.load()``. What is offered here should also be claimed, in :class:`northbridge.Capabilities`.
    """

    device_type: str = ""
    """The torch device type of the backend. ``Backend`` sets it."""

    deepspeed_accelerator: str | None = None
    """DeepSpeed's accelerator for the chip; None if it has none. Claim ``deepspeed``.

    DeepSpeed's own name of it, as in ``DS_ACCELERATOR``, or ``module.Class`` of one that the backend brings, which is
    imported and made when a run with DeepSpeed begins.
    """

    def graph(self) -> Graph:
        """Return an empty graph for the current device. Called for each capture; claim ``graphs``.

        The default is torch's own, on a chip that has registered one. Raises :class:`UnsupportedError` on others.
        """
        import torch

        if not hasattr(torch.accelerator, "Graph"):
            raise UnsupportedError(
                f"torch {torch.__version__} has no torch.accelerator.Graph. Fix: install torch 2.13 or later, or run"
                " without graphs",
                capability="graphs",
            )
        try:
            graph: Graph = torch.accelerator.Graph()
        except RuntimeError as error:
            raise UnsupportedError(
                f"{self.device_type!r} has registered no graph in torch: {error}. Fix: run without graphs",
                capability="graphs",
            ) from error
        return graph

    def fused_optimizers(self) -> Mapping[type[torch.optim.Optimizer], type[torch.optim.Optimizer]]:
        """Return the vendor's own class for each of torch's optimizers that it replaces; claim ``fused_optimizers``.

        Called when an optimizer is set up. Empty, the default, if torch's ``fused=True`` runs the chip's own kernels.
        Otherwise ``fused=True`` is an error that names the vendor's class, and checkpoints are converted between both.
        """
        return {}

    def clip_grad_norm(self, parameters: Iterable[torch.nn.Parameter], max_norm: float) -> torch.Tensor:
        """Scale the gradients so that their 2-norm is at most ``max_norm``; return the norm before.

        It is 0 without gradients. Called in each step of a run with ``gradient_clip_val``, and by
        ``Fabric.clip_gradients(max_norm=…)``, with unscaled gradients that are whole on this device. Other norms and
        sharded gradients are torch's.
        """
        import torch

        return torch.nn.utils.clip_grad_norm_(parameters, max_norm)

    def compile_options(self) -> Mapping[str, Any]:
        """Return the options of ``Bridge.compile_backend``, each with its default; claim ``compile``.

        Called before a model is compiled with that backend: an option that is not here is refused. Empty, the
        default, leaves the options to the backend.
        """
        return {}

    def float8_engines(self) -> Mapping[str, Float8Engine]:
        """Return what trains linear layers in float8 on this machine's chip, by name; claim ``float8``.

        The first is the default. Called when a run with :class:`northbridge.Float8Precision` or
        ``precision="transformer-engine"`` begins, and for each forward pass of it. The default is empty.
        """
        return {}

    def profiler_activity(self) -> ProfilerActivity | None:
        """Return the chip's activity in ``torch.profiler``; None if torch does not record the chip; claim ``profiler``.

        Called when a run with a profiler begins.
        """
        import torch.profiler

        module: Any = torch.profiler
        name = "PrivateUse1" if is_renamed(self.device_type) else self.device_type.upper()
        activity: ProfilerActivity | None = getattr(module.ProfilerActivity, name, None)
        return activity if activity in module.supported_activities() else None

    def image_loader(self, dataset: Dataset[Any], **options: Any) -> Iterable[Any]:  # noqa: ARG002 - for overrides
        """Return the vendor's own loader of a torchvision ``ImageFolder``; claim ``data_loaders``.

        Called by a script's ``train_dataloader()``, with options of torch's DataLoader such as ``batch_size``. A batch
        is images (N x channels x height x width) and labels (N), on the chip or on the CPU. The default raises
        :class:`UnsupportedError`, and so does a loader that would use torch's instead of its own.
        """
        raise UnsupportedError(
            f"{self.device_type!r} has no loader of its own for {type(dataset).__name__}. Fix:"
            " torch.utils.data.DataLoader",
            capability="data_loaders",
        )

    def compilations(self) -> Mapping[str, float]:
        """Return the vendor's counts of this process, such as compiled graphs, by name; claim ``recompilation``.

        Totals since the software was loaded: one of them grows when a graph is compiled, and none shrinks. Called by
        ``RecompilationMonitor`` at the start and end of a fit, and every ``log_every_n_steps`` steps. Empty, the
        default, if the vendor counts none.
        """
        return {}
