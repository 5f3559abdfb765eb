"""Compilation of the chip, one at a time for each key of the cache: its process, and its errors."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import ninja
from filelock import FileLock, Timeout
from rich.console import Console

from northbridge_cpu_sim.build.cache import VARIABLE, keep, reject_foreign, writing
from northbridge_cpu_sim.build.recipe import Compiler, Recipe, absolute_folders
from northbridge_cpu_sim.errors import BuildError

REASON = "compiling the simulated chip, once per machine: half a minute on two free cores"

PATIENCE = 15 * 60
"""Time limit in seconds for waiting on another process that compiles."""

QUIET = 2.0
"""Seconds of waiting after which the user is told."""

_PRIVATE = "building-{key}-"
_ROOM = 128 * 2**20
_LONGEST = 200  # characters of the compiler's first error

_MORE_ROOM = f"make room there, or set {VARIABLE} to a folder on another disk"
_COMPLAINT = re.compile(r"\berror: |undefined reference|No space left|quota exceeded")
_CURES = (
    (r"No space left on device|Disk quota exceeded", _MORE_ROOM),
    (r"Killed signal", "set MAX_JOBS=1, because the memory was too small"),
    (r"\bPython\.h: ", "apt install python3-dev"),
    (r"\bexec(ute)? .?cc1plus", "apt install g++, because the compiler is incomplete"),
)


@contextmanager
def locked(chip: Path) -> Iterator[None]:
    """Hold the lock of the file ``chip``; wait for it up to :data:`PATIENCE`. Raises :class:`BuildError`.

    It is the system's lock and ends with its holder, so a killed build blocks no other.
    """
    file = chip.with_suffix(".lock")
    reject_foreign(file)
    lock = FileLock(str(file))
    with writing(chip.parent):
        try:
            _acquire(lock, file)
        except Timeout:
            raise BuildError(
                f"{_holder(file)} has compiled for {PATIENCE // 60} minutes. Fix: end it (fuser {file}), or set"
                f" {VARIABLE}"
            ) from None
    try:
        yield
    finally:
        lock.release()


def _acquire(lock: FileLock, file: Path) -> None:
    try:
        lock.acquire(timeout=min(QUIET, PATIENCE))
    except Timeout:
        with announced(f"waiting for {_holder(file)}, which compiles the simulated chip"):
            lock.acquire(timeout=PATIENCE)


def _holder(file: Path) -> str:
    """Return "process 1234" for the one that has locked ``file``; "another process" if the system does not say."""
    try:
        found, lines = file.stat(), Path("/proc/locks").read_text().splitlines()
    except OSError:
        return "another process"
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    holders = [words[4] for words in map(str.split, lines) if words[1] == "FLOCK" and words[5] == place]
    return f"process {holders[0]}" if holders else "another process"


def compile_chip(name: str, recipe: Recipe, compiler: Compiler, *, chip: Path, log: Path) -> None:
    """Compile the sources of ``recipe`` to the extension ``name`` at ``chip``, completely or not at all.

    The caller holds the lock of ``chip``. Raises :class:`BuildError`; ``log`` then has all output of the compiler.
    """
    folder = chip.parent
    _remove_leftovers(folder, own=chip.stem)
    _check_room(folder)
    with writing(folder):
        private = Path(tempfile.mkdtemp(prefix=_PRIVATE.format(key=chip.stem), dir=folder))
    try:
        with announced():
            succeeded = _run(name, recipe, compiler, private)
        with writing(folder):
            if succeeded:
                keep(private / f"{name}.so", chip)
                log.unlink(missing_ok=True)
            else:
                os.replace(private / "log", log)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    if not succeeded:
        raise failure(log)


def failure(log: Path) -> BuildError:
    """Build the error that explains the failed build which wrote ``log``."""
    text = log.read_text(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    complaints = [line for line in lines if _COMPLAINT.search(line)]
    first = [*complaints, *reversed(lines), "the compiler said nothing"][0]
    cures = [cure for sign, cure in _CURES if re.search(sign, text)]
    cure = cures[0] if cures else "another compiler (CXX=clang++)"
    return BuildError(f"compiling the simulated chip failed: {first[:_LONGEST]}. Fix: {cure}; see {log}")


def _remove_leftovers(folder: Path, *, own: str) -> None:
    """Remove the folders of killed builds: those of the key ``own``, and of each key that is not being compiled."""
    for leftover in folder.glob(_PRIVATE.format(key="*") + "*"):
        key = leftover.name.split("-")[1]
        file = folder / f"{key}.lock"
        reject_foreign(file)
        try:
            # An orphan of the killed build may still write there: files that remain now are removed next time.
            with nullcontext() if key == own else FileLock(str(file)).acquire(timeout=0):
                shutil.rmtree(leftover, ignore_errors=True)
        except (Timeout, OSError):
            continue


@contextmanager
def announced(reason: str = REASON) -> Iterator[None]:
    """Tell the user why it takes a minute: with a spinner on a terminal, elsewhere in one line."""
    console = Console(stderr=True)
    if sys.stderr.isatty() and not console.is_dumb_terminal:
        with console.status(reason):
            yield
    else:
        print(reason, file=sys.stderr, flush=True)
        yield


def _check_room(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < _ROOM:
        raise BuildError(f"compiling needs {_ROOM >> 20} MiB in {folder}, found {free >> 20} MiB. Fix: {_MORE_ROOM}")


def _run(name: str, recipe: Recipe, compiler: Compiler, private: Path) -> bool:
    files = [str(file) for file in _write_units(recipe, private)]
    environ = {
        **os.environ,
        "CXX": compiler.command,
        "LC_ALL": "C",
        "MAX_JOBS": os.environ.get("MAX_JOBS") or str(min(len(files), max(2, os.cpu_count() or 2))),
        "PATH": os.pathsep.join([_ninja_folder(), absolute_folders(os.environ.get("PATH", os.defpath))]),
        "PYTHONWARNINGS": "ignore",
        "TMPDIR": str(private),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    # The child has this process's import path, without "", which is the current working folder.
    path = [os.path.abspath(each) for each in sys.path if each]
    start = f"import sys; sys.path[:] = {path}; from {__name__} import compile_alone; compile_alone(sys.argv[1:])"
    command = [sys.executable, "-c", start]
    # The sources of a later folder include the headers of the first.
    command += [str(private), name, str(recipe.folders[0]), *files, "--", *recipe.flags]
    with (
        open(private / "log", "xb", opener=_open_for_the_user) as log,
        subprocess.Popen(
            command,
            env=environ,
            cwd=private,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as child,
    ):
        return child.wait() == 0


def _open_for_the_user(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write_units(recipe: Recipe, private: Path) -> list[Path]:
    written = []
    for number, unit in enumerate(recipe.units()):
        file = private / f"unit_{number}.cpp"
        file.write_text("".join(f'#include "{source.absolute()}"\n' for source in unit))
        written.append(file)
    return written


def _ninja_folder() -> str:
    # The package's own: PATH may have another version, or none if the environment is not activated.
    if not ninja.BIN_DIR or not shutil.which("ninja", path=ninja.BIN_DIR):
        raise BuildError("no ninja program. Fix: pip install --force-reinstall ninja")
    return ninja.BIN_DIR


def compile_alone(arguments: list[str]) -> None:
    """Compile the extension ``name`` in ``folder``, and load it as a first test.

    ``arguments`` are ``[folder, name, headers, *sources, "--", *flags]``. It has a process of its own, because torch's
    builder changes the environment, imports setuptools and loads its result.
    """
    from torch.utils import cpp_extension

    folder, name, headers, *rest = arguments
    split = rest.index("--")
    # The parent's end of stdin closes at the parent's end, even by SIGKILL, and then the compilers end too.
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    # torch's own lock file is in the folder and survives a killed build: each build has its own folder.
    cpp_extension.load(
        name,
        rest[:split],
        extra_cflags=rest[split + 1 :],
        extra_include_paths=[headers],
        build_directory=folder,
        verbose=True,
    )


def _end_with_the_parent() -> None:
    os.read(0, 1)
    # SIGTERM, because ninja passes it on to the compilers, which it runs in their own process groups.
    os.killpg(0, signal.SIGTERM)
