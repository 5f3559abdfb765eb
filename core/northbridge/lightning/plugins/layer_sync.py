"""Implementation of ``sync_batchnorm=True`` in a Trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from northbridge.lightning.namespaces import _NamespaceMixin

if TYPE_CHECKING:
    import torch


class _LayerSyncMixin(_NamespaceMixin):
    """Computes batch norm over the batches of all ranks while a model is fitted."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def apply(self, model: torch.nn.Module) -> torch.nn.Module:
        """Let each batch norm in ``model`` use the batches of all ranks."""
        from northbridge.lightning.plugins.sync_batch_norm import synchronize

        return synchronize(model, self.backend)

    def revert(self, model: torch.nn.Module) -> torch.nn.Module:
        """Give each batch norm in ``model`` its old class back."""
        from northbridge.lightning.plugins.sync_batch_norm import restore

        return restore(model)
