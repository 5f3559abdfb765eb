"""Checkpoints that open on any chip, or without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch.nn.parameter import is_lazy

from northbridge.discovery.current import is_vendors, loaded
from northbridge.errors import CheckpointError
from northbridge.lightning.namespaces import _NamespaceMixin
from northbridge.lightning.plugins.atomic_write import draft_of
from northbridge.lightning.plugins.checkpoint_files import reading
from northbridge.lightning.plugins.containers import replace_in
from northbridge.lightning.plugins.load_and_save import SAVE


def to_cpu(state: Any) -> Any:
    """Return ``state`` with its tensors on the CPU; two tensors that share memory still do.

    torch writes the device of each tensor into a file, and a machine without that device cannot open it. The same holds
    for a ``torch.device`` of the chip, which becomes the CPU in the copy.
    """
    return _Copies().replace_tensors(state)


class _Copies:
    """The tensors that one call of :func:`to_cpu` has copied.

    A recursive function inside that call would be a reference cycle. It would keep the tensors and their copies in
    memory until the garbage collector runs.
    """

    def __init__(self) -> None:
        # The originals are kept, so that no later object gets the id of a freed one.
        self._tensors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._storages: dict[tuple[int, torch.dtype], tuple[torch.UntypedStorage, torch.Tensor]] = {}
        self._chip = loaded()

    def replace_tensors(self, state: Any) -> Any:
        """Replace the chip's tensors in ``state``, at any depth, by copies on the CPU."""
        leaves = (torch.Tensor, torch.UntypedStorage, torch.TypedStorage)  # torch pickles them in its own ways
        return replace_in(state, self._move, leaves)

    def _move(self, value: Any) -> Any:
        if isinstance(value, torch.device):
            is_on_chip = self._chip is not None and value.type == self._chip.device.type
            return torch.device("cpu") if is_on_chip else value
        if not isinstance(value, torch.Tensor) or value.device.type in ("cpu", "meta"):
            return value
        if is_lazy(value):
            return value  # it has no values, and names no device in a file
        if id(value) in self._tensors:  # an attribute of the tensor refers back to it
            return self._tensors[id(value)][1]
        moved = self._copy(value).requires_grad_(value.requires_grad)
        if type(value) is torch.nn.Parameter:
            moved = torch.nn.Parameter(moved, requires_grad=value.requires_grad)
        self._tensors[id(value)] = value, moved
        # A tensor's class may keep its own attributes in the copy.
        vars(moved).update({**self.replace_tensors(vars(value)), **vars(moved)})
        return moved

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        if not _lies_in_its_storage(tensor):
            return tensor.detach().cpu()
        storage = tensor.untyped_storage()
        key = storage._cdata, tensor.dtype
        if key not in self._storages:
            self._storages[key] = storage, _whole_storage(tensor, storage)
        return self._storages[key][1].as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def _lies_in_its_storage(tensor: torch.Tensor) -> bool:
    """Return True if all of ``tensor`` is at its offset, in its strides, in the storage that torch reports.

    A chip may keep its tensors elsewhere, and then all views of a tensor report the same place. Such a storage is too
    small, or has no address.
    """
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
        return False
    if tensor.is_conj() or tensor.is_neg():  # not visible in memory
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
    """Copy all of ``storage`` to a tensor on the CPU, in which ``tensor`` has the same place as on the chip.

    It is copied as values of the tensor's dtype, never as bytes. A chip may store them narrower or in its own order,
    and its copies of tensors undo that.
    """
    numbers = storage.nbytes() // tensor.element_size()
    if tensor.storage_offset() == 0 and tensor.numel() >= numbers:
        alone = tensor.detach().cpu()
        if alone.stride() == tensor.stride():
            return alone
    return tensor.detach().as_strided((numbers,), (1,), 0).cpu()


def stock_format() -> AbstractContextManager[None]:
    """Let this thread use torch's own ``torch.save`` inside the ``with``: a vendor's import may have replaced it.

    A replacement may write a pickle protocol that ``torch.load(weights_only=True)`` cannot read elsewhere. The saved
    tensors are on the CPU already. A user's own replacement stays.
    """
    return SAVE.use(torch.serialization.save) if is_vendors(SAVE.former) else nullcontext()


class _CheckpointIOMixin(_NamespaceMixin):
    """Writes a local checkpoint completely or not at all, with its tensors on the CPU. A user's own plugin wins."""

    _stock_save: ClassVar[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "stock_class" in vars(cls):  # combined just now
            cls._stock_save = cls.stock_class.save_checkpoint

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Write ``checkpoint``; a local one goes straight into its file, without a copy in memory.

        Raises :class:`CheckpointError` if the system rejects the write; the old file is untouched then.
        """
        checkpoint = to_cpu(checkpoint)
        is_replaced = self.stock_class.save_checkpoint is not type(self)._stock_save  # by code that wants the call
        if storage_options is not None or "://" in str(path) or is_replaced:
            with stock_format():
                super().save_checkpoint(checkpoint, path, storage_options=storage_options)
            return
        target = Path(path)
        with writing(target), draft_of(target) as draft, stock_format(), draft.open("wb") as file:
            torch.save(checkpoint, file)

    def load_checkpoint(self, path: str | Path, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Read a checkpoint as Lightning does. Raises :class:`CheckpointError` for a file that is not a checkpoint."""
        with reading(path):
            checkpoint: dict[str, Any] = super().load_checkpoint(path, *args, **kwargs)
        return checkpoint


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Turn the system's errors of writing ``target`` inside the ``with`` into :class:`CheckpointError`."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        cause = system_error_behind(error)
        if cause is None:
            raise
        raise unwritable(target, cause) from cause


def unwritable(target: Path, cause: OSError) -> CheckpointError:
    """Return the error for a checkpoint that the system cannot write."""
    is_ours = any((target / name).exists() for name in ("meta.pt", "checkpoint"))  # of FSDP, of DeepSpeed
    cure = (
        "choose another name"
        if target.is_dir() and not is_ours
        else f"make room in {target.parent}, or choose another folder, with ModelCheckpoint(dirpath=…) or"
        " Trainer(default_root_dir=…)"
    )
    return CheckpointError(
        f"{target} could not be written: {cause.strerror or cause}; an old file is untouched. Fix: {cure}"
    )


def system_error_behind(error: BaseException) -> OSError | None:
    """Return the system's own error behind ``error``, or None.

    torch finishes its archive even on a full disk, and raises its own error about that. It writes files that it opened
    itself in C++, whose errors do not include the system's.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    if cause is None and "inline_container.cc" in str(error):
        return OSError("torch could not write all of it: the disk may be full")
    return cause
