"""Ranks that Lightning started as scripts end where the process that started them was killed, or failed.

Ranks that train notice a lost peer by themselves. One that still waits for rank 0 to appear does not: it would wait for
half an hour, and no process stops it. Neither does one that hangs, for which rank 0 has given up waiting. Once
they have met, rank 0 may end well before the others, which then go on.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import signal
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from northbridge.process_record import logger
from northbridge.processes.environment import hand_down, handed_down

_LAUNCHER = "_NORTHBRIDGE_LAUNCHER"  # "PID FILE": the file is gone once the process of that number has ended well
_FILE = "northbridge-launcher-"  # locked as long as that process lives
_FAILED = "failed"  # the file's text where that process has raised
_KILLED = "was killed"
_LOOK_SECONDS = 0.5
_GRACE_SECONDS = 10.0
_READ_BY_ALL_SECONDS = 60.0

_watching = threading.Lock()


def end_with_launcher(*, starts_ranks: bool) -> None:
    """Have this rank end with the process that started it; where it ``starts_ranks`` itself, leave word for them.

    Called where ranks are scripts, before Lightning starts any. Only a rank whose environment has the word of such a
    process watches: those that the user started by hand, or torchrun did, are their affair. POSIX only: elsewhere a
    process is not adopted.
    """
    if os.name != "posix":
        return
    launcher, _, file = (handed_down(_LAUNCHER) or "").partition(" ")
    if launcher and "LOCAL_RANK" in os.environ and (int(launcher) == os.getppid() or not _is_running(int(launcher))):
        if _watching.acquire(blocking=False):
            _Watch(int(launcher), Path(file)).start()
    elif starts_ranks and launcher != str(os.getpid()):
        _sweep(Path(tempfile.gettempdir()))
        handle, alive = tempfile.mkstemp(prefix=_FILE)
        with contextlib.suppress(OSError):  # a file system without locks
            _lock(handle)
        atexit.register(_tell_how_it_ends, handle, Path(alive))
        hand_down(_LAUNCHER, f"{os.getpid()} {alive}")


def _tell_how_it_ends(handle: int, alive: Path) -> None:
    # Python keeps the last uncaught error.
    if getattr(sys, "last_value", None) is None:
        alive.unlink(missing_ok=True)
    else:
        os.pwrite(handle, _FAILED.encode(), 0)


def _sweep(folder: Path) -> None:
    """Remove what processes have left that were killed, or failed, once their ranks have read it."""
    for left in folder.glob(f"{_FILE}*"):
        # It may be locked, another user's, or gone by another's sweep.
        with contextlib.suppress(OSError), _open_own(left, os.O_RDWR) as file:
            _lock(file)
            if time.time() - os.fstat(file).st_mtime > _READ_BY_ALL_SECONDS:
                if os.fstat(file).st_size:
                    left.unlink()
                else:
                    os.write(file, _KILLED.encode())  # a minute ago or just now: the next sweep knows


@contextlib.contextmanager
def _open_own(file: Path, flags: int) -> Iterator[int]:
    """Open a file of this user's in a folder that everybody shares; raises ``OSError`` for anything else.

    A link would lead elsewhere, a pipe would never be read, and another's file says what the other likes.
    """
    handle = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
            raise PermissionError(errno.EPERM, "it is not a file of this user's alone", str(file))
        yield handle
    finally:
        os.close(handle)


def _lock(file: int) -> None:
    import fcntl  # of POSIX

    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class _Watch(threading.Thread):
    """Ends this rank when the process that started it has been killed, or has failed."""

    def __init__(self, launcher: int, alive: Path) -> None:
        super().__init__(name="launcher", daemon=True)
        self._launcher, self._alive = launcher, alive
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Stop watching, and return when the thread has ended."""
        self._stopped.set()
        self.join()
        _watching.release()

    def run(self) -> None:
        has_met_the_others = False
        while os.getppid() == self._launcher:
            has_met_the_others = has_met_the_others or _has_process_group()
            if self._stopped.wait(_LOOK_SECONDS):
                return
        how = self._how_it_ended(has_met_the_others or _has_process_group())
        if how == _FAILED and self._stopped.wait(_GRACE_SECONDS):  # this rank may have an error of its own to tell
            return
        if not how:
            return
        logger.error("the process that started this rank %s, and this rank ends with it", how)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    def _how_it_ended(self, has_met_the_others: bool) -> str:
        with contextlib.suppress(OSError), _open_own(self._alive, os.O_RDONLY) as file:
            return _FAILED if os.read(file, len(_FAILED)) == _FAILED.encode() else _KILLED
        return "" if has_met_the_others else "ended before the ranks had met"


def _has_process_group() -> bool:
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    # A killed process that was not waited for still has its number.
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
