"""What ``sync_batchnorm=True`` does in a Trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from northbridge.lightning.namespaces import Namespace


def make_layer_sync(namespace: Namespace) -> Any | None:
    """Return the ``LayerSync`` class of ``namespace``; None for a Fabric, which has no such thing."""
    if not namespace.is_trainer:
        return None
    stock: Any = namespace.module("plugins.layer_sync").TorchSyncBatchNorm

    class LayerSync(stock):  # type: ignore[misc]  # Lightning's class of this namespace, known at run time
        """Let batch norm see the batches of all ranks while a model is fitted."""

        def __init__(self, backend: str) -> None:
            self.backend = backend

        def apply(self, model: torch.nn.Module) -> torch.nn.Module:
            from northbridge.lightning.plugins.sync_batch_norm import synchronize

            return synchronize(model, self.backend)

        def revert(self, model: torch.nn.Module) -> torch.nn.Module:
            from northbridge.lightning.plugins.sync_batch_norm import restore

            return restore(model)

    return LayerSync
