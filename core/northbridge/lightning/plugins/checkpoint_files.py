"""Reading of checkpoints with torch's own ``load``, and one error for files that are not checkpoints."""

from __future__ import annotations

import os
import pickle
import pickletools
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from packaging.version import InvalidVersion, Version

from northbridge.discovery.current import is_vendors
from northbridge.errors import CheckpointCodeError, CheckpointError
from northbridge.lightning.plugins.load_and_save import LOAD, stock_load

_VERSION = "pytorch-lightning_version"


@contextmanager
def reading(path: Any, *, check: bool = True) -> Iterator[None]:
    """Turn this thread's errors of reading ``path`` by ``torch.load`` into :class:`CheckpointError`.

    A file that opens but has a wrong checksum gets a warning; ``check`` says if this process compares checksums.

    It is torch's own ``load``, which a vendor's import may have replaced. A replacement may run a checkpoint's code if
    ``weights_only`` is not given; torch's own has not since 2.6. A user's own replacement stays.
    """
    if LOAD.mine is not None:  # of an outer reading()
        yield
        return
    try:
        with LOAD.use(_Reader(path, _stock(), check)):
            yield
    except (FileNotFoundError, CheckpointError):
        raise
    except OSError as error:
        raise unreadable(path, error) from error
    except AttributeError as error:
        if error.name in ("keys", "pop"):  # Lightning calls them without checking the type
            reject_other_than_dict(path, error.obj)
        raise


def _stock() -> Callable[..., Any]:
    former = LOAD.former
    is_by_user = former is not torch.serialization.load and not is_vendors(former)
    return former if is_by_user else stock_load()


class _Reader:
    def __init__(self, path: Any, load: Callable[..., Any], check: bool) -> None:
        self._path = path
        self._load = load
        self._check = check

    def __call__(self, f: Any, *args: Any, **kwargs: Any) -> Any:
        path = self._path_of(f)
        file = next((str(each) for each in (f, path) if os.path.isfile(str(each))), None)
        begin = f.tell() if hasattr(f, "tell") else 0
        with ThreadPoolExecutor(1) as pool:  # checksums take half as long as reading
            looked = pool.submit(find_damage_of, file) if self._check and file else None
            try:
                read = self._load(f, *args, **kwargs)
            except FileNotFoundError:
                raise
            except Exception as error:
                raise unreadable(path, error) from error
        if looked is not None:
            _warn_of_damage(path, looked.result())
        elif self._check and "://" not in str(path):  # it would be fetched again
            end = f.tell()
            f.seek(begin)
            _warn_of_damage(path, find_damage(f))
            f.seek(end)
        return read

    def _path_of(self, f: Any) -> Any:
        """Return the path of the checkpoint, or of another file that a user's plugin reads meanwhile."""
        name = f if isinstance(f, os.PathLike) else getattr(f, "name", f)
        if not isinstance(name, (str, os.PathLike)) or "://" in str(self._path):
            return self._path
        own, other = os.path.realpath(self._path), os.path.realpath(name)
        return self._path if other == own or other.startswith(f"{own}{os.sep}") else name


def _warn_of_damage(path: Any, damage: str) -> None:
    if damage:
        warnings.warn(
            f"the checkpoint {path} is damaged: {damage}. It was loaded anyway, and its values may be wrong."
            " Fix: copy it again, or load another",
            stacklevel=2,
        )


def reject_other_than_dict(path: Any, checkpoint: object) -> None:
    """Raise :class:`CheckpointError` unless ``checkpoint`` is a dict or similar."""
    if not hasattr(checkpoint, "keys"):
        raise CheckpointError(
            f"{path} is not a checkpoint: it holds a {type(checkpoint).__name__}. Fix: load a file that a Trainer wrote"
        )


def reject_other_parts(path: Any, checkpoint: Any, *parts: str) -> None:
    """Raise :class:`CheckpointError` if Lightning cannot restore its own ``parts`` of a Trainer's ``checkpoint``.

    A flipped bit in a key's name would otherwise raise a KeyError in Lightning's migration. The user's parts, including
    the ``state_dict``, are not checked: hooks may have written them in their own format.
    """
    version = checkpoint.get(_VERSION)
    faults = [
        f"its {part!r} is of type {type(checkpoint[part]).__name__}, not a dict"
        for part in (*parts, "loops", "callbacks")
        if not isinstance(checkpoint.get(part, {}), (Mapping, type(None)))
    ]
    if not isinstance(version, str) or not _is_version(version):
        faults.append(f"its {_VERSION!r} is {version!r:.50}" if _VERSION in checkpoint else f"it has no {_VERSION!r}")
    if faults:
        raise CheckpointError(
            f"{path} is not a checkpoint: {faults[0]}. Fix: copy it again, or load a file that a Trainer wrote"
        )


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def unreadable(path: Any, error: BaseException) -> CheckpointError:
    """Return the error for a checkpoint that could not be read."""
    if isinstance(error, CheckpointError):
        return error
    text, reason = str(error), first_line(error)
    is_archive = "://" in str(path) or _is_archive(path)
    damage = find_damage_of(path) if is_archive else ""
    name = re.search(r"GLOBAL ([\w.]+)", text)
    protocol = _newer_protocol(text)
    if protocol and is_archive and not damage:
        return CheckpointCodeError(
            f"{path} has pickle protocol {protocol}, which weights_only=True cannot read. Fix: weights_only=False if"
            " you trust it, or torch.save(…, pickle_protocol=2)"
        )
    if "weights_only" in text and not damage:
        if is_archive or name or not isinstance(error, pickle.UnpicklingError):
            held = name[1][:LONGEST] if name else "more than weights"
            return CheckpointCodeError(
                f"{path} holds {held}, which weights_only=True does not allow. Fix: add_safe_globals(),"
                " or weights_only=False if you trust it"
            )
        reason = "torch.save does not write this format"
    return CheckpointError(
        f"{path} could not be read as a checkpoint: {damage or reason}. Fix: copy it again, or load another"
    )


def _is_archive(path: Any) -> bool:
    try:
        return zipfile.is_zipfile(path)
    except Exception:  # noqa: BLE001 - it has found the archive's end, in which a damaged number leads astray
        return True


def _newer_protocol(text: str) -> int | None:
    """Return the pickle protocol of the opcode that ``weights_only=True`` rejected; None if it is 2 or older."""
    unknown = re.search(r"Unsupported operand (\d+)", text)
    protocols = (each.proto for each in pickletools.opcodes if unknown and ord(each.code) == int(unknown[1]))
    return next((protocol for protocol in protocols if protocol > 2), None)


LONGEST = 200
"""Limit in characters for text quoted from a damaged file."""


class _Whole:
    """A file in which ``zipfile`` can seek from the end too; torch's view of a part of a file seeks wrongly."""

    def __init__(self, file: Any) -> None:
        self._file = file
        file.seek(0, os.SEEK_END)
        self._end: int = file.tell()
        self.read, self.tell = file.read, file.tell

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        place = {os.SEEK_SET: 0, os.SEEK_CUR: int(self.tell()), os.SEEK_END: self._end}[whence] + offset
        self._file.seek(place)
        return place


def find_damage_of(path: Any) -> str:
    """Return the fault of the archive ``path``, as :func:`find_damage` does."""
    if "://" in str(path):
        return ""
    with Path(os.fspath(path)).open("rb") as file:
        return find_damage(file)


def find_damage(file: Any) -> str:
    """Return the fault of an archive, because torch does not compare checksums; empty for a good or another file."""
    try:
        if file.read(4) != b"PK\x03\x04":  # torch's former format has no checksums
            return ""
        with zipfile.ZipFile(_Whole(file)) as archive:
            has_checksums = any(part.CRC for part in archive.infolist())  # torch.serialization.set_crc32_options
            wrong = archive.testzip() if has_checksums else None
    except Exception as error:  # noqa: BLE001 - zipfile's errors, and any that a damaged offset causes
        return first_line(error)
    return f"the checksum of {_clean(wrong)} is wrong" if wrong else ""


def first_line(error: BaseException) -> str:
    """Return the error's type and the first line of its text, cleaned: a damaged file may put anything there."""
    line = _clean(str(error).partition("\n")[0])
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def _clean(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text[:LONGEST])
