"""Checkpoints that open on any chip, or none."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from northbridge.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from northbridge.lightning.faces import Face


def to_cpu(state: Any) -> Any:
    """Return ``state`` with its tensors on the CPU; two tensors that share memory still do.

    torch writes the device of each tensor into a file, and a machine without that device cannot open it.
    """
    import torch
    from lightning_utilities.core.apply_func import apply_to_collection

    # The storages are kept, so that no later one gets the number of one that is gone.
    moved_storages: dict[tuple[int, torch.dtype], tuple[torch.UntypedStorage, torch.Tensor]] = {}

    def move(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type == "cpu":
            return tensor
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
            return tensor.cpu()
        storage = tensor.untyped_storage()
        key = storage._cdata, tensor.dtype
        if key not in moved_storages:
            moved_storages[key] = storage, _whole_storage(tensor, storage)
        moved = moved_storages[key][1].as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(moved, requires_grad=tensor.requires_grad)
        return moved.requires_grad_(tensor.requires_grad)

    return apply_to_collection(state, torch.Tensor, move)


def _whole_storage(tensor: torch.Tensor, storage: torch.UntypedStorage) -> torch.Tensor:
    """Return a tensor on the CPU that holds all of ``storage``, in which ``tensor`` lies as it does on the chip.

    It is copied as numbers of the tensor's dtype and never as bytes: a chip may hold them narrower, or in an order of
    its own, which its copies of tensors undo.
    """
    numbers = storage.nbytes() // tensor.element_size()
    if tensor.storage_offset() == 0 and tensor.numel() >= numbers:
        alone = tensor.detach().cpu()
        if alone.stride() == tensor.stride():
            return alone
    return tensor.detach().as_strided((numbers,), (1,), 0).cpu()


@contextmanager
def stock_format() -> Iterator[None]:
    """Let ``torch.save`` be torch's own inside: a vendor's import may have put another in its place.

    One such writes a pickle protocol that no ``torch.load(weights_only=True)`` elsewhere reads. What is saved inside
    is on the CPU already.
    """
    import torch

    in_place, torch.save = torch.save, torch.serialization.save
    try:
        yield
    finally:
        torch.save = in_place


def make_checkpoint_io(face: Face) -> Any:
    """Return the ``CheckpointIO`` that our strategies of ``face`` use unless the user brings one."""
    stock: Any = face.fabric_module("plugins.io.torch_io").TorchCheckpointIO

    class CheckpointIO(stock):  # type: ignore[misc]  # Lightning's class of this face, known at run time
        """Write a local checkpoint whole or not at all, its tensors on the CPU."""

        def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
            checkpoint = to_cpu(checkpoint)
            if "://" in str(path):
                with stock_format():
                    super().save_checkpoint(checkpoint, path, storage_options)
                return
            target = Path(path)
            try:
                with _draft(target) as draft, stock_format():
                    super().save_checkpoint(checkpoint, draft, storage_options)
            except OSError as error:
                raise CheckpointError(
                    f"the checkpoint {target} could not be written: {error.strerror or error}; what stood there before"
                    f" is untouched. Make room in {target.parent} and in {tempfile.gettempdir()}, where Lightning"
                    " writes first, or choose another folder, with ModelCheckpoint(dirpath=…) or"
                    " Trainer(default_root_dir=…)"
                ) from error

    return CheckpointIO


@contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """Yield a new file beside ``target`` that takes its place at the end, or is gone where that is not reached."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{uuid4().hex}.part")
    draft.touch(exist_ok=False)
    try:
        permissions = draft.stat().st_mode
        yield draft
        draft.chmod(permissions)  # Lightning moved a file of its own there, which may be its owner's alone
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
