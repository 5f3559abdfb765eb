"""The folder of the compiled chip, and its key."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import stat
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
import torch

from northbridge_cpu_sim.build.cache import is_whole, keep, open_folder
from northbridge_cpu_sim.build.extension import locate
from northbridge_cpu_sim.build.recipe import Compiler, Recipe, find_compiler, key
from northbridge_cpu_sim.errors import BuildError
from northbridge_cpu_sim.settings import SimSettings


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "csrc"
    folder.mkdir()
    (folder / "chip.cpp").write_text("int answer() { return 42; }")
    (folder / "chip.h").write_text("int answer();")
    return folder


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    program = tmp_path / "bin" / "g++"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    return Compiler(str(program))


def test_a_missing_folder_is_made_for_the_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = open_folder(tmp_path / "northbridge" / "cpu_sim")
    finally:
        os.umask(before)

    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder.parent)] == [0o700] * 2


def test_the_default_is_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert open_folder(None) == tmp_path / "northbridge" / "cpu_sim"


@pytest.mark.parametrize("unusable", ["", "relative/path"])
def test_without_that_cache_it_is_in_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unusable: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", unusable)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert open_folder(None) == tmp_path / ".cache" / "northbridge" / "cpu_sim"


def test_a_user_without_a_home_is_told_which_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "~")

    with pytest.raises(BuildError, match=r"no home folder .* set NORTHBRIDGE_CPU_SIM_CACHE"):
        open_folder(None)


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Let a path belong to another user."""
    lstat = Path.lstat
    given: set[Path] = set()

    def find(path: Path) -> os.stat_result:
        found = lstat(path)
        return os.stat_result((*found[:4], os.geteuid() + 1, *found[5:])) if path in given else found

    monkeypatch.setattr(Path, "lstat", find)
    return given.add


@pytest.mark.parametrize("mode", [0o777, 0o770], ids=oct)
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    """The advice is to delete it: after a chmod, what others have put there would be loaded."""
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(mode)

    with pytest.raises(BuildError) as caught:
        open_folder(cache)

    assert str(caught.value) == (
        f"cannot use the simulated chip's cache: {cache} can be written by others (mode {mode:o})."
        " Fix: delete it, because others may have filled it, or set NORTHBRIDGE_CPU_SIM_CACHE to a"
        " folder that only you can write"
    )


def test_a_parent_that_others_can_write_is_refused(tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    parent.chmod(0o775)

    with pytest.raises(BuildError) as caught:
        open_folder(parent / "inner" / "cache")

    assert str(caught.value) == (
        f"cannot use the simulated chip's cache: {parent} can be written by others (mode 775)."
        " Fix: set NORTHBRIDGE_CPU_SIM_CACHE to a folder that only you can write"
    )


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o1777])
def test_a_parent_that_others_can_read_does_not_matter(tmp_path: Path, mode: int) -> None:
    """Nor is one like /tmp, in which nobody can replace another's folder."""
    tmp_path.chmod(mode)

    assert open_folder(tmp_path / "cache") == tmp_path / "cache"


def test_a_folder_behind_a_link_is_the_one_it_leads_to(tmp_path: Path) -> None:
    """As homes are on clusters; the real path is what is looked at."""
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "home").symlink_to("elsewhere")

    assert open_folder(tmp_path / "home" / "cache") == tmp_path / "elsewhere" / "cache"

    (tmp_path / "elsewhere").chmod(0o777)
    with pytest.raises(BuildError, match=rf"{tmp_path / 'elsewhere'} can be written by others"):
        open_folder(tmp_path / "home" / "cache")


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()

    with pytest.raises(BuildError, match=r"cache is not a folder\. Fix: set NORTHBRIDGE_CPU_SIM_CACHE to a folder"):
        open_folder(tmp_path / "cache")


@pytest.mark.parametrize("whose", ["cache", "."])
def test_a_folder_of_another_user_is_refused(tmp_path: Path, give_away: Callable[[Path], None], whose: str) -> None:
    cache = tmp_path / "cache"
    open_folder(cache)
    give_away(tmp_path / whose)

    user = os.geteuid()
    with pytest.raises(BuildError) as caught:
        open_folder(cache)

    assert f"{tmp_path / whose} belongs to user {user + 1}, and this process is user {user}. Fix: set" in str(
        caught.value
    )


def kept(folder: Path, content: bytes) -> Path:
    """A chip of ``content`` as a build leaves it."""
    built = folder / "built.so"
    built.write_bytes(content)
    keep(built, folder / f"{'k' * 32}.so")
    return folder / f"{'k' * 32}.so"


def test_what_a_build_leaves_is_whole_and_the_users_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        chip = kept(tmp_path, b"machine code" * 1000)
    finally:
        os.umask(before)

    assert is_whole(chip)
    assert stat.S_IMODE(chip.stat().st_mode) == 0o600


def test_a_file_of_another_name_or_none_is_not_whole(tmp_path: Path) -> None:
    chip = kept(tmp_path, b"machine code")
    chip.rename(tmp_path / f"{'j' * 32}.so")

    assert not is_whole(chip)
    assert not is_whole(tmp_path / f"{'j' * 32}.so")


def test_a_damaged_file_is_never_whole(tmp_path: Path) -> None:
    """One bit anywhere, an end that is missing, and more at the end: each would kill the process that loads it."""
    chip = kept(tmp_path, bytes(range(256)) * 40)
    good = chip.read_bytes()
    places = range(0, len(good), len(good) // 65)
    damaged = [good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :] for place in places]
    damaged += [good[:place] for place in places] + [good + b"x", good + good[-96:], b""]

    for each in damaged:
        chip.write_bytes(each)
        assert not is_whole(chip)
    chip.write_bytes(good)
    assert is_whole(chip)


def test_a_link_in_the_cache_is_refused(tmp_path: Path) -> None:
    chip = kept(tmp_path, b"machine code")
    (tmp_path / "elsewhere").mkdir()
    chip.rename(tmp_path / "elsewhere" / chip.name)
    chip.symlink_to(tmp_path / "elsewhere" / chip.name)

    with pytest.raises(BuildError) as caught:
        is_whole(chip)

    assert str(caught.value) == (
        f"cannot use the simulated chip's cache: {chip} is a symbolic link to {tmp_path / 'elsewhere' / chip.name}."
        " Fix: delete it"
    )


def test_a_file_that_is_not_the_users_alone_is_refused(tmp_path: Path, give_away: Callable[[Path], None]) -> None:
    chip = kept(tmp_path, b"machine code")
    chip.chmod(0o620)
    with pytest.raises(BuildError, match=r"\.so can be written by others \(mode 620\)\. Fix: delete it"):
        is_whole(chip)

    chip.chmod(0o600)
    give_away(chip)
    with pytest.raises(BuildError, match=r"\.so belongs to user \d+, .*\. Fix: delete it"):
        is_whole(chip)


def test_what_is_not_a_file_in_the_cache_is_refused(tmp_path: Path) -> None:
    """A pipe would be waited for for ever."""
    os.mkfifo(tmp_path / "chip.so")

    with pytest.raises(BuildError, match="is neither a file nor a folder"):
        is_whole(tmp_path / "chip.so")


@pytest.mark.parametrize("name", ["{key}.lock", "{key}.log"])
def test_a_link_to_a_file_is_refused(tmp_path: Path, sources: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Else the build would empty the file that it leads to, or show it as the compiler's words."""
    recipe = Recipe((sources,))
    other = tmp_path / "other.txt"
    other.write_text("somebody's")
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / name.format(key=key(recipe, find_compiler()))).symlink_to(other)

    with pytest.raises(BuildError, match=r"is a symbolic link to .*other\.txt\. Fix: delete it"):
        locate(SimSettings(cache=tmp_path / "cache"), recipe)

    assert other.read_text() == "somebody's"


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_a_folder_that_cannot_be_made_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int) -> None:
    def refuse(self: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        raise OSError(code, os.strerror(code), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)

    with pytest.raises(BuildError) as caught:
        open_folder(tmp_path / "cache")

    assert f"{os.strerror(code)}. Fix: make it writable" in str(caught.value)
    assert "or set NORTHBRIDGE_CPU_SIM_CACHE" in str(caught.value)
    assert caught.value.__suppress_context__


def test_the_same_build_has_the_same_key(sources: Path, compiler: Compiler) -> None:
    assert key(Recipe((sources,)), compiler) == key(Recipe((sources,)), compiler)


def test_other_files_beside_the_sources_do_not_change_the_key(sources: Path, compiler: Compiler) -> None:
    before = key(Recipe((sources,)), compiler)
    (sources / "chip.cpp~").write_text("an editor's backup")

    assert key(Recipe((sources,)), compiler) == before


@pytest.mark.parametrize("file", ["chip.cpp", "chip.h", "another.cpp"])
def test_the_key_depends_on_each_source(sources: Path, compiler: Compiler, file: str) -> None:
    before = key(Recipe((sources,)), compiler)
    (sources / file).write_text("int answer() { return 43; }")

    assert key(Recipe((sources,)), compiler) != before


def test_the_key_depends_on_the_flags(sources: Path, compiler: Compiler) -> None:
    assert key(Recipe((sources,)), compiler) != key(Recipe((sources,), ("-O2", "-g")), compiler)


WITH_OTHER_ABI = not torch.compiled_with_cxx11_abi()
OTHERS: dict[str, tuple[object, str, object]] = {
    "torch": (torch, "__version__", "2.14.0"),
    "commit of torch": (torch.version, "git_version", "0" * 40),
    "C++ ABI": (torch, "compiled_with_cxx11_abi", lambda: WITH_OTHER_ABI),
    "Python ABI": (sysconfig, "get_config_var", lambda name: "cpython-399-x86_64-linux-gnu"),
    "machine": (platform, "machine", lambda: "riscv128"),
    "C library": (os, "confstr", lambda name: "glibc 9.99"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_the_key_depends_on_what_the_chip_is_compiled_against(
    monkeypatch: pytest.MonkeyPatch, sources: Path, compiler: Compiler, other: str
) -> None:
    before = key(Recipe((sources,)), compiler)
    monkeypatch.setattr(*OTHERS[other])

    assert key(Recipe((sources,)), compiler) != before


def test_the_key_depends_on_the_path_of_the_compiler(sources: Path, compiler: Compiler) -> None:
    copy = shutil.copy2(compiler.command, Path(compiler.command).with_name("clang++"))

    assert key(Recipe((sources,)), Compiler(str(copy))) != key(Recipe((sources,)), compiler)


def test_the_key_depends_on_the_version_of_the_compiler(sources: Path, compiler: Compiler) -> None:
    before = key(Recipe((sources,)), compiler)
    Path(compiler.command).write_text("#!/bin/sh\n# version 2\n")

    assert key(Recipe((sources,)), compiler) != before


def test_the_key_sees_the_compiler_behind_a_wrapper(sources: Path, compiler: Compiler) -> None:
    wrapped = Compiler(f"env {compiler.command}")
    before = key(Recipe((sources,)), wrapped)
    Path(compiler.command).write_text("#!/bin/sh\n# version 2\n")

    assert key(Recipe((sources,)), wrapped) != before


@pytest.mark.parametrize("flag", ["-O0", "-DANSWER=1", "-march=native"])
def test_the_key_depends_on_all_words_of_cxx(sources: Path, compiler: Compiler, flag: str) -> None:
    assert key(Recipe((sources,)), Compiler(f"{compiler.command} {flag}")) != key(Recipe((sources,)), compiler)


def test_the_key_costs_less_than_50_ms(sources: Path) -> None:
    for number in range(20):
        (sources / f"more_{number}.cpp").write_text("// nothing\n" * 1000)

    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        key(Recipe((sources,)), find_compiler())
        seconds.append(time.perf_counter() - start)

    assert median(seconds) < 0.05
