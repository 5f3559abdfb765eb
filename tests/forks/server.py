"""A process that has imported torch, and forks itself for each run.

Most of what a short run costs is the import of torch, of Lightning and of what serves it. Here that is done once. The
server has imported nothing of a backend's or a vendor's: torch's import of device backends waits for the fork, so that
a driver is initialised where it is used, and the run's own variables are read in the fork. Where it has imported
Lightning too, a fork is a script that imports Lightning first, and learns of the backends then.

:mod:`multiprocessing.forkserver` does not serve: it is one for a whole process and so for one environment, passes over
what it cannot import, and calls none of its children's exit functions.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import runpy
import select
import socket
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn
from weakref import finalize

from tests.forks.program import AUTOLOAD, Program, show
from tests.forks.ranks import stand_by

PRELOADED = ("torch", "torch._dynamo", "torchmetrics", "northbridge.lightning.corrections.table")
"""The slow imports of each namespace, and what serves it: torchmetrics imports scipy and matplotlib where they are."""


def main() -> None:
    """Import, then fork until a process ends; a fork ends with its program.

    The first argument is the process, the others are modules that are imported beside :data:`PRELOADED`. The standard
    input is the socket at which programs are asked for.
    """
    requests = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    owner, *more = sys.argv[1:]
    os.environ[AUTOLOAD] = "0"
    modules = (*PRELOADED, *more)
    for module in modules:
        if find_spec(module) is not None:
            importlib.import_module(module)
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        sys.exit(
            f"importing {', '.join(modules)} left {threads} threads, of which a fork has one; set OMP_NUM_THREADS and"
            " OPENBLAS_NUM_THREADS to 1, or leave them unset"
        )
    # What came with the imports is neither copied nor torn down by a fork's collections: as dear as the imports. Nor
    # does a fork end it: torch's libraries of operators alone take as long as two forks.
    gc.freeze()
    for each in finalize._registry:  # type: ignore[attr-defined]  # weakref has no other list of them
        each.atexit = False
    program, files = _fork(requests, os.pidfd_open(int(owner)))
    if program.starts_ranks:
        program, files = stand_by(program, files)
    try:
        _become(program, files)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            raise
        _end(ended.code or 0)
    _end(0)


def _end(code: int) -> NoReturn:
    """End this process as the interpreter does, but tear down no module: that costs as much as a short training.

    How torch and a chip fare then is seen where processes start afresh. One that waits for a thread ends by itself.
    """
    main = threading.main_thread()
    if any(thread is not main and not thread.daemon for thread in threading.enumerate()):
        sys.exit(code)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _fork(requests: socket.socket, owner: int) -> tuple[Program, list[int]]:
    """Return in a fork, with its program and the file descriptors for its input, output and errors.

    Who asked gets the fork's pid and, when it has ended, its exit code as :mod:`subprocess` has it. After the end of
    the process ``owner``, or when it is told so, the server ends with the last fork.
    """
    forks: dict[int, tuple[int, Connection]] = {}  # by what the system shows of each
    changed = select.poll()
    for each in (requests.fileno(), owner):
        changed.register(each, select.POLLIN)
    is_asked = True
    while is_asked or forks:
        for file, _ in changed.poll():
            if file in forks:
                changed.unregister(file)
                os.close(file)
                pid, asker = forks.pop(file)
                with suppress(OSError), asker:  # it may have ended
                    asker.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                continue
            said, files, connection = b"!", list[int](), requests
            if file == requests.fileno() and is_asked:
                connection, _ = requests.accept()
                said, files, _, _ = socket.recv_fds(connection, 1, 2)
            if said == b"!" and is_asked:
                for each in (requests.fileno(), owner):
                    changed.unregister(each)
                requests.close()
                is_asked = False
            if not files:
                continue
            pid = os.fork()
            if pid == 0:
                requests.close()
                for other in (owner, *forks):
                    os.close(other)
                for _, reply in forks.values():
                    reply.close()
                return _receive(Connection(connection.detach())), [*files, os.dup(files[1])]
            for each in files:
                os.close(each)
            ended = os.pidfd_open(pid)
            forks[ended] = pid, Connection(connection.detach())
            changed.register(ended, select.POLLIN)
    _end(0)


def _receive(reply: Connection) -> Program:
    """Return the program of this process, a fork, whose pid is told."""
    with reply:
        try:
            program: Program = reply.recv()
            os.setsid()  # before the pid is known: from then on its group may be killed
            reply.send(os.getpid())
        except (EOFError, OSError):  # who asked has ended
            os._exit(0)
    return program


def _become(program: Program, files: list[int]) -> None:
    """Make of this process what the interpreter would be that was started for ``program``, and run it.

    ``files`` are those that it reads, prints to, and prints errors to.
    """
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(program.folder)
    os.environ.clear()
    show(program.environ)
    os.environ.update(program.environ)
    _number_the_rank()
    is_module = program.command[0] == "-m"
    sys.argv[:] = program.command[is_module:]
    sys.orig_argv[:] = [sys.executable, *program.command]
    if not getattr(sys.flags, "safe_path", False):  # from Python 3.11 on
        sys.path[0] = str(program.folder) if is_module else str(Path(program.name).parent)
    importlib.invalidate_caches()  # what is installed may have changed since the server began
    _import_device_backends()
    if is_module:
        runpy.run_module(program.name, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(program.name, run_name="__main__")


def _number_the_rank() -> None:
    """Let Lightning have read at its import which rank this process is, for whom it prints nothing but on the first."""
    module: Any = sys.modules.get("lightning_utilities.core.rank_zero")
    if module is not None:
        variables = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")
        module.rank_zero_only.rank = next((int(os.environ[each]) for each in variables if each in os.environ), 0)


def _import_device_backends() -> None:
    torch: Any = sys.modules["torch"]
    # torch 2.4 imports no device backends.
    if hasattr(torch, "_import_device_backends") and torch._is_device_backend_autoload_enabled():
        torch._import_device_backends()


if __name__ == "__main__":
    main()
