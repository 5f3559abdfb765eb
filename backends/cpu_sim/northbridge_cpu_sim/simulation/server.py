"""The cards of one simulated server, each held by one process at a time."""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from contextlib import suppress
from pathlib import Path

from northbridge_cpu_sim.build.cache import find_own_fault
from northbridge_cpu_sim.errors import CardTakenError, ServerError

_held: dict[Path, int] = {}  # the locked files of this process, open until it ends
_lock = threading.Lock()


class Server:
    """A server with a locked file for each card: ``<folder>/accel/accel<card>``, which contains its holder's pid.

    Processes with the same folder share a server; two folders are two servers. ``variable`` is the variable with which
    a user names another folder.
    """

    def __init__(self, folder: Path, cards: int, *, variable: str = "") -> None:
        self.folder = folder
        self.cards = cards
        self._cure = f"set {variable} to" if variable else "name"

    def acquire(self, card: int) -> None:
        """Hold ``card`` until this process ends, even by SIGKILL; a repeated call does nothing.

        Raises :class:`CardTakenError` if another process holds it, and :class:`ServerError` if the folder may be
        another user's, or cannot be created.
        """
        file = self._file(card)
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            for folder in self._folders():
                if not os.path.lexists(folder):
                    folder.mkdir(mode=0o700, exist_ok=True)
                self._reject_foreign(folder)
        except OSError as error:
            raise self._unusable(f"{self.folder} cannot be made ({error.strerror})") from error
        with _lock:
            while file not in _held:
                descriptor = _open(file, os.O_CREAT)
                with suppress(FileExistsError):
                    os.link(file, self._asked(card))
                if _locks(descriptor):
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                    _held[file] = descriptor
                    break
                os.close(descriptor)
                holder = self.holder(card)
                if holder is not None:  # None: it has just ended
                    raise CardTakenError(card, holder)

    def holder(self, card: int) -> int | None:
        """Return the pid of the process that holds ``card``, or None if it is free; acquires nothing.

        Raises :class:`ServerError` as :meth:`acquire` does.
        """
        for folder in filter(os.path.lexists, self._folders()):
            self._reject_foreign(folder)
        try:
            descriptor = _open(self._asked(card))
        except FileNotFoundError:
            return None
        try:
            while _is_locked(descriptor):
                pid = os.pread(descriptor, 20, 0)
                if pid:  # empty: it has just been taken
                    return int(pid)
        finally:
            os.close(descriptor)
        return None

    def _reject_foreign(self, folder: Path) -> None:
        # The default folder's name can be guessed, and any user may create it.
        fault = find_own_fault(folder) or (None if folder.is_dir() else f"{folder} is not a folder")
        if fault is not None:
            raise self._unusable(fault)

    def _unusable(self, fault: str) -> ServerError:
        return ServerError(
            f"the simulated server cannot be used: {fault}. Fix: {self._cure} a folder that only you can write"
        )

    def _folders(self) -> tuple[Path, Path, Path]:
        server = self.folder.absolute()
        return server, server / "accel", server / "asked"

    def _file(self, card: int) -> Path:
        if not 0 <= card < self.cards:
            raise ValueError(f"no card {card}: the server in {self.folder} has {self.cards}")
        return self.folder.absolute() / "accel" / f"accel{card}"

    def _asked(self, card: int) -> Path:
        # The same file under another name: a process that only asks does not open a card's file and is not a holder.
        return self._file(card).parents[1] / "asked" / f"card{card}"


# Locks of open files: they end with the last process that has the file open, even by SIGKILL, and can be queried
# without taking them. The process's own locks (POSIX) would end as soon as any of its code closed the same file.


def _request() -> bytes:
    return struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)  # struct flock, the whole file


def _open(file: Path, flags: int = 0) -> int:
    return os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)


def _locks(descriptor: int) -> bool:
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _request())
    except BlockingIOError:
        return False
    return True


def _is_locked(descriptor: int) -> bool:
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _request())
    return bool(struct.unpack_from("h", answer)[0] != fcntl.F_UNLCK)


def _let_go_in_a_forked_child() -> None:
    # A forked process shares its parent's open files, and a worker that outlives its parent would keep the card.
    global _lock
    for descriptor in _held.values():
        os.close(descriptor)
    _held.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_let_go_in_a_forked_child)
