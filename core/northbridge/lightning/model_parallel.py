"""The one sharded strategy: FSDP2 and tensor parallel, as the user's model applies them to a mesh of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from northbridge.lightning.checkpoint import stock_format, to_cpu
from northbridge.lightning.parallel import make_parallel_strategy

if TYPE_CHECKING:
    import torch

    from northbridge.lightning.faces import Face


def make_model_parallel_strategy(face: Face, checkpoint_io: Any, script_launcher: Any) -> Any:
    """Return the sharded strategy class of ``face``."""
    stock: Any = face.module("strategies.model_parallel").ModelParallelStrategy
    parallel_strategy: Any = make_parallel_strategy(face, stock, checkpoint_io, script_launcher)

    class ModelParallelStrategy(parallel_strategy):  # type: ignore[misc]  # made at run time
        """Train a model that is spread over several devices of a chip, a process each."""

        def setup(self, trainer: Any) -> None:
            self._add_up_gradients(self.model)
            self._drive_sync_batch_norm(self.model)
            super().setup(trainer)

        def module_to_device(self, module: torch.nn.Module) -> None:
            """Leave ``module`` where it is: what is spread over the ranks goes to the chip when it is set up."""

        def setup_module(self, module: torch.nn.Module) -> torch.nn.Module:
            module = super().setup_module(module)
            self._add_up_gradients(module)
            _move_whole_tensors(module, self.root_device)
            self._warn_of(module)
            return module

        def _add_up_gradients(self, module: torch.nn.Module) -> None:
            # FSDP2 asks the library for averages. Told so, it divides by itself.
            if self.backend.collective.averages:
                return
            parts: Any = module.modules()
            for part in parts:
                if hasattr(part, "set_force_sum_reduction_for_comms"):
                    part.set_force_sum_reduction_for_comms(True)

        # Lightning's own, past what strategies with a whole model on each rank do: every rank writes its shards.

        def _save_trainer(self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None) -> None:
            with stock_format():
                stock.save_checkpoint(self, to_cpu(self.with_random_states(checkpoint)), filepath, storage_options)

        def _save_fabric(
            self, path: Any, state: dict[str, Any], storage_options: Any = None, filter: Any = None
        ) -> None:
            with stock_format():
                stock.save_checkpoint(self, path, to_cpu(state), storage_options, filter)

        save_checkpoint = _save_trainer if face.is_trainer else _save_fabric

        def _load_trainer(self, *args: Any, **kwargs: Any) -> Any:
            checkpoint = super().load_checkpoint(*args, **kwargs)
            if self.lightning_module.trainer.state.fn == "fit":
                self.note_random_states(checkpoint)  # Lightning restores the optimizers of this strategy here, too
            return checkpoint

        if face.is_trainer:
            load_checkpoint = _load_trainer
        else:
            checkpoint_io = stock.checkpoint_io  # which says that there is none

    return ModelParallelStrategy


def _move_whole_tensors(module: torch.nn.Module, device: torch.device) -> None:
    """Move what the user has not spread over the ranks, in place, so that an optimizer finds the same parameters."""
    from torch.distributed.tensor import DTensor

    for tensor in (*module.parameters(), *module.buffers()):
        if not isinstance(tensor, DTensor) and tensor.device.type != "meta":
            tensor.data = tensor.data.to(device)
