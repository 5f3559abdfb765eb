"""The folder that holds the compiled chip, and the key under which it lies there."""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from northbridge_cpu_sim.compiler import Compiler
from northbridge_cpu_sim.errors import BuildError
from northbridge_cpu_sim.recipe import Recipe
from northbridge_cpu_sim.settings import SimSettings

VARIABLE = SimSettings.variable("cache")


def open_folder(chosen: Path | None) -> Path:
    """Return the folder ``chosen``, or the user's default one; make it if it is missing.

    What lies in it is loaded into the process as machine code, so it is refused
    (:class:`BuildError`) if anyone but the user could have put it there.
    """
    folder = chosen or _default_folder()
    with writing(folder):
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    if stat.S_ISLNK(found.st_mode):
        problem = f"is a symbolic link to {folder.resolve()}"
    elif not stat.S_ISDIR(found.st_mode):
        problem = "is not a folder"
    elif found.st_uid != os.geteuid():
        problem = f"belongs to user {found.st_uid}, and this process is user {os.geteuid()}"
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = f"can be written by others (mode {stat.S_IMODE(found.st_mode):o}; chmod 700 it)"
    else:
        return folder
    raise BuildError(
        f"the cache of the simulated chip, {folder}, {problem}: set {VARIABLE} to a folder that only you can write"
    )


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn the system's refusal to write ``folder`` into a :class:`BuildError` with the cure."""
    try:
        yield
    except OSError as error:
        raise BuildError(
            f"the cache of the simulated chip, {folder}, cannot be written: {error.strerror}; "
            f"make room or give yourself leave to write there, or set {VARIABLE} to another folder"
        ) from None


def key(recipe: Recipe, compiler: Compiler) -> str:
    """Return a name that differs as soon as the compiled chip would, within milliseconds."""
    digest = hashlib.sha256()
    for file in recipe.files():
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    facts = [
        *recipe.flags,
        torch.__version__,
        torch.version.git_version,
        f"C++11 ABI {torch.compiled_with_cxx11_abi()}",
        sysconfig.get_config_var("SOABI"),
        *compiler.identity(),
        platform.machine(),
        # Machines that share a home may differ in their C library.
        os.confstr("CS_GNU_LIBC_VERSION") if platform.system() == "Linux" else None,
    ]
    digest.update("\0".join(map(str, facts)).encode())
    return digest.hexdigest()[:32]


def keep(built: Path, chip: Path) -> None:
    """Move the file ``built`` to ``chip`` at once, sealed with the key at its end."""
    with open(built, "ab") as file:
        file.write(chip.stem.encode())
        file.flush()
        os.fsync(file.fileno())
    os.replace(built, chip)


def is_whole(chip: Path) -> bool:
    """Return whether ``chip`` is there, down to its seal."""
    # Half a file does not fail to load: it kills the process with SIGBUS.
    seal = chip.stem.encode()
    try:
        with open(chip, "rb") as file:
            file.seek(-len(seal), os.SEEK_END)
            return file.read() == seal
    except OSError:
        return False


def _default_folder() -> Path:
    # The XDG specification: a relative path there is to be ignored.
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not root.is_absolute():
        root = Path(os.path.expanduser("~")) / ".cache"
    if not root.is_absolute():
        raise BuildError(f"this user has no home folder to keep the compiled chip in: set {VARIABLE}")
    return root / "northbridge" / "cpu_sim"
