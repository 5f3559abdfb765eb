"""The DDP strategy of every backend."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Any

import torch.distributed

from northbridge.backend import reject_denied
from northbridge.collective import Collective
from northbridge.errors import CollectiveError
from northbridge.lightning.strategies.parallel import _ParallelMixin
from northbridge.lightning.strategies.unsupported import (
    OF_SEVERAL_RANKS,
    reject_to_add_sparse_gradients,
    tensors_of,
)


class _DDPMixin(_ParallelMixin):
    """Trains on several devices, one process each, over the chip's communication library."""

    _ddp_kwargs: dict[str, Any]
    _needs = (*OF_SEVERAL_RANKS, "ddp_averaging")

    def _configure_launcher(self) -> None:
        _ = self.collective  # its error comes first
        if self._start_method in ("fork", "forkserver"):
            what = f"{self.backend.name!r} cannot fork ranks"
            reject_denied(self.backend, "fork", what, "strategy='ddp_spawn', or 'ddp' in a script")
        super()._configure_launcher()
        if self._start_method != "popen":
            self._launcher = self.siblings.launcher(self, start_method=self._start_method)

    def _setup_distributed(self) -> None:
        super()._setup_distributed()
        self._ddp_kwargs = {**self.collective.ddp_options(), **self._ddp_kwargs}

    def determine_ddp_device_ids(self) -> None:
        """Return None: with device ids, Lightning enters a CUDA stream. A module on one device does not need them."""
        return

    _determine_ddp_device_ids = determine_ddp_device_ids  # a Fabric's name for it

    # Lightning wraps a module in DDP here, which makes the first broadcast: for the Trainer and for a Fabric.

    # Not in _setup_model(): LightningCLI reads DDP's arguments from the source of Lightning's method.

    def configure_ddp(self) -> None:
        """Wrap a Trainer's model in DDP, unless the library cannot send its tensors."""
        reject_uncarried(self.collective, self.model, self._ddp_kwargs)
        reject_to_add_sparse_gradients(self.collective.name, self.model, self.root_device)
        self._drive_sync_batch_norm(self.model)
        super().configure_ddp()

    def setup_module(self, module: Any) -> Any:
        """Wrap a Fabric's ``module`` in DDP, unless the library cannot send its tensors."""
        reject_uncarried(self.collective, module, self._ddp_kwargs)
        reject_to_add_sparse_gradients(self.collective.name, module, self.root_device)
        return super().setup_module(module)

    def _register_ddp_hooks(self) -> None:
        # Lightning registers a communication hook only for CUDA, and drops it elsewhere silently.
        hook = self._ddp_comm_hook
        if hook is None:
            return
        if self._ddp_comm_wrapper is not None:
            hook = self._ddp_comm_wrapper(hook)
        _find_neighbours(self._ddp_comm_state, self.num_processes)
        self.model.register_comm_hook(state=self._ddp_comm_state, hook=_under_another_name(hook))


def _find_neighbours(state: Any, ranks: int) -> None:
    # torch takes the ranks of a node as a group whose size is CUDA's device count.
    from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState

    if isinstance(state, PostLocalSGDState) and state.subgroup is None:
        make_groups: Any = torch.distributed.new_subgroups
        state.subgroup, _ = make_groups(group_size=ranks)


def _under_another_name(hook: Any) -> Any:
    # torch recognizes the bfloat16 compression by its name, and forbids it without the library of a device of its own.
    if not getattr(hook, "__name__", "").startswith("bf16_compress"):
        return hook

    @wraps(hook)
    def named(state: object, bucket: Any) -> Any:
        return hook(state, bucket)

    named.__name__ = f"northbridge_{hook.__name__}"
    return named


def reject_uncarried(library: Collective, module: torch.nn.Module, options: Mapping[str, Any]) -> None:
    """Raise :class:`CollectiveError` for a tensor of ``module`` that DDP would send but the library cannot."""
    ignored = getattr(module, "_ddp_params_and_buffers_to_ignore", ())  # torch's list of what DDP ignores
    for kind, name, tensor in tensors_of(module):
        is_sent = name not in ignored and (kind == "parameter" or options.get("broadcast_buffers", True))
        if is_sent and not library.carries(tensor.dtype):
            dtype = str(tensor.dtype).removeprefix("torch.")
            more = ", or DDPStrategy(broadcast_buffers=False)" if kind == "buffer" else ""
            raise CollectiveError(
                f"{library.name!r} cannot send the {kind} {name!r}: it is {dtype}. Fix: another dtype{more}"
            )
