"""Watch of the launching process: its ranks end if it was killed, or failed.

Ranks that train notice a lost peer by themselves. A rank that still waits for rank 0 to appear does not: it would wait
for half an hour, with no process left to stop it. Neither does a rank that hangs after rank 0 has given up waiting.
After the ranks have met, rank 0 may end normally before the others, which then go on. The parent of
spawned or forked ranks waits for them. If it is killed, torch sends them SIGINT, but scripts started with ``&`` ignore
it.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import multiprocessing
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
from northbridge.processes.endings import read_stat
from northbridge.processes.environment import hand_down, handed_down

_LAUNCHER = "_NORTHBRIDGE_LAUNCHER"  # "PID FILE": the file is removed when that process ends without an error
_FILE = "northbridge-launcher-"  # locked while that process lives
_FAILED = "failed"  # the file's text if that process has raised
_KILLED = "was killed"
_LOOK_SECONDS = 0.5
_GRACE_SECONDS = 10.0
_READ_BY_ALL_SECONDS = 60.0

_watching = threading.Lock()
_handles: list[int] = []  # of this process's file, if it starts ranks


def end_with_launcher(*, starts_ranks: bool) -> None:
    """Let this rank end with the process that started it; if it ``starts_ranks`` itself, set the variable for them.

    Called if ranks are scripts, before Lightning starts any. Only a rank whose environment has that variable watches:
    ranks that the user or torchrun started are not watched. POSIX only: elsewhere a process is not adopted.
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
        _handles.append(handle)
        atexit.register(_tell_how_it_ends, Path(alive))
        hand_down(_LAUNCHER, f"{os.getpid()} {alive}")


@contextlib.contextmanager
def end_with_parent() -> Iterator[None]:
    """Let this rank, which was spawned or forked, end inside the ``with`` if its parent does. POSIX only, as above."""
    parent = multiprocessing.parent_process()
    if os.name != "posix" or parent is None or parent.pid is None:
        yield
        return
    watch = _Watch(parent.pid, None)
    watch.start()
    try:
        yield
    finally:
        watch.stop()


def tell_failure() -> None:
    """Tell the ranks that this process has started that it has failed, so that they end with it."""
    for handle in _handles:
        os.pwrite(handle, _FAILED.encode(), 0)


def _tell_how_it_ends(alive: Path) -> None:
    # Python keeps the last uncaught error there.
    if getattr(sys, "last_value", None) is None:
        alive.unlink(missing_ok=True)
    else:
        tell_failure()


def _sweep(folder: Path) -> None:
    """Remove the files of processes that were killed, or failed, after their ranks have read them."""
    for left in folder.glob(f"{_FILE}*"):
        # It may be locked, another user's, or already removed by another process.
        with contextlib.suppress(OSError), _open_own(left, os.O_RDWR) as file:
            _lock(file)
            if time.time() - os.fstat(file).st_mtime > _READ_BY_ALL_SECONDS:
                if os.fstat(file).st_size:
                    left.unlink()
                else:
                    os.write(file, _KILLED.encode())  # removed by a sweep at least a minute later


@contextlib.contextmanager
def _open_own(file: Path, flags: int) -> Iterator[int]:
    """Open a file of this user's in a shared folder; raises ``OSError`` for any other file.

    A link would lead elsewhere, a pipe would never end, and another user's file may have any text.
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
    """Ends this rank if the process that started it was killed, or has failed."""

    def __init__(self, launcher: int, alive: Path | None) -> None:
        super().__init__(name="launcher", daemon=True)
        self._launcher, self._alive = launcher, alive
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Stop watching, and return after the thread has ended."""
        self._stopped.set()
        self.join()

    def run(self) -> None:
        has_met_the_others = False
        while self._launcher_lives():
            has_met_the_others = has_met_the_others or _has_process_group()
            if self._stopped.wait(_LOOK_SECONDS):
                return
        how = self._how_it_ended(has_met_the_others or _has_process_group())
        if how == _FAILED and self._stopped.wait(_GRACE_SECONDS):  # this rank may report its own error first
            return
        if not how:
            return
        logger.error("the process that started this rank %s, and this rank ends with it", how)
        os.kill(os.getpid(), signal.SIGTERM)
        if not self._stopped.wait(_GRACE_SECONDS):
            os.kill(os.getpid(), signal.SIGKILL)

    def _launcher_lives(self) -> bool:
        # A rank of a fork server has that server for its parent.
        return _is_running(self._launcher) if self._alive is None else os.getppid() == self._launcher

    def _how_it_ended(self, has_met_the_others: bool) -> str:
        if self._alive is None:
            return "ended"
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
    # A killed process keeps its number until its parent waits for it.
    fields = read_stat(process)
    return fields[0] != "Z" if fields else not Path("/proc/self/stat").exists()  # ended meanwhile, or no such files
