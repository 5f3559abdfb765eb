"""Checkpoints that open on any chip, or none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from northbridge.discovery.current import is_vendors, loaded
from northbridge.errors import CheckpointError
from northbridge.lightning.namespaces import _NamespaceMixin
from northbridge.lightning.plugins.atomic_write import draft_of
from northbridge.lightning.plugins.checkpoint_files import reading
from northbridge.lightning.plugins.containers import replace_in

if TYPE_CHECKING:
    import torch


def to_cpu(state: Any) -> Any:
    """Return ``state`` with its tensors on the CPU; two tensors that share memory still do.

    torch writes the device of each tensor into a file, and a machine without that device cannot open it. Nor does
    anything that names the chip, which is the CPU in the copy.
    """
    import torch
    from torch.nn.parameter import is_lazy

    # The originals are kept, so that no later one gets the number of one that is gone.
    moved_tensors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    moved_storages: dict[tuple[int, torch.dtype], tuple[torch.UntypedStorage, torch.Tensor]] = {}
    chip = loaded()
    leaves = (torch.Tensor, torch.UntypedStorage, torch.TypedStorage)  # which torch writes in its own ways

    def move(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("cpu") if chip is not None and value.type == chip.device.type else value
        if not isinstance(value, torch.Tensor) or value.device.type in ("cpu", "meta"):
            return value
        if is_lazy(value):
            return value  # it has no numbers, and names no device in a file
        if id(value) in moved_tensors:  # where an attribute of a tensor leads back to it
            return moved_tensors[id(value)][1]
        moved = copy_of(value).requires_grad_(value.requires_grad)
        if type(value) is torch.nn.Parameter:
            moved = torch.nn.Parameter(moved, requires_grad=value.requires_grad)
        moved_tensors[id(value)] = value, moved
        vars(moved).update(
            {**replace_in(vars(value), move, leaves), **vars(moved)}
        )  # a tensor's class may keep its own there
        return moved

    def copy_of(tensor: torch.Tensor) -> torch.Tensor:
        if not _lies_in_its_storage(tensor):
            return tensor.detach().cpu()
        storage = tensor.untyped_storage()
        key = storage._cdata, tensor.dtype
        if key not in moved_storages:
            moved_storages[key] = storage, _whole_storage(tensor, storage)
        return moved_storages[key][1].as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    return replace_in(state, move, leaves)


def _lies_in_its_storage(tensor: torch.Tensor) -> bool:
    """Whether all that ``tensor`` holds is at its offset, in its strides, in the memory that torch says it is in.

    A chip may keep its tensors elsewhere: then all views of a tensor say that they are where it is. Such a storage is
    too small, or has no address.
    """
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
        return False
    if tensor.is_conj() or tensor.is_neg():  # which no memory tells
        return False
    steps = sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
    numbers = tensor.storage_offset() + steps + 1 if tensor.numel() else 0
    storage = tensor.untyped_storage()
    if storage.nbytes() < numbers * tensor.element_size():
        return False
    try:
        return numbers == 0 or storage.data_ptr() != 0
    except RuntimeError:
        return False


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
    is on the CPU already. What the user has put there stays.
    """
    import torch

    if not is_vendors(torch.save):
        yield
        return
    in_place, torch.save = torch.save, torch.serialization.save
    try:
        yield
    finally:
        torch.save = in_place


class _CheckpointIOMixin(_NamespaceMixin):
    """Write a local checkpoint completely or not at all, its tensors on the CPU. Used unless the user passes one."""

    _lightnings_save: ClassVar[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "stock_class" in vars(cls):  # combined just now
            cls._lightnings_save = cls.stock_class.save_checkpoint

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Write ``checkpoint``; a local one straight into its file, with no copy of it in memory.

        Raises :class:`CheckpointError` where the system refuses: what stood there before is untouched.
        """
        checkpoint = to_cpu(checkpoint)
        is_replaced = self.stock_class.save_checkpoint is not type(self)._lightnings_save  # by who wants to be asked
        if storage_options is not None or "://" in str(path) or is_replaced:
            with stock_format():
                super().save_checkpoint(checkpoint, path, storage_options=storage_options)
            return
        import torch

        target = Path(path)
        with writing(target), draft_of(target) as draft, stock_format(), draft.open("wb") as file:
            torch.save(checkpoint, file)

    def load_checkpoint(self, path: str | Path, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Read what Lightning reads, as it does; raises :class:`CheckpointError` for what is no checkpoint."""
        with reading(path):
            checkpoint: dict[str, Any] = super().load_checkpoint(path, *args, **kwargs)
        return checkpoint


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Write the checkpoint ``target`` inside; raises :class:`CheckpointError` where the system refuses."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        cause = system_error_behind(error)
        if cause is None:
            raise
        raise unwritable(target, cause) from cause


def unwritable(target: Path, cause: OSError) -> CheckpointError:
    """Return what to tell a user of a checkpoint that the system refuses to take."""
    cure = (
        "choose another name"
        if target.is_dir() and not (target / "meta.pt").exists()
        else f"make room in {target.parent}, or choose another folder, with ModelCheckpoint(dirpath=…) or"
        " Trainer(default_root_dir=…)"
    )
    return CheckpointError(
        f"{target} could not be written: {cause.strerror or cause}; an old file is untouched. Fix: {cure}"
    )


def system_error_behind(error: BaseException) -> OSError | None:
    """Return the system's own error behind ``error``, or None.

    torch ends its archive in a file that is full already, and raises an error of its own about that. A file that it
    has opened itself it writes in C++, whose error does not tell of the system's.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    if cause is None and "inline_container.cc" in str(error):
        return OSError("torch could not write all of it, as on a full disk")
    return cause
