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

from northbridge_cpu_sim.cache import key, open_folder
from northbridge_cpu_sim.compiler import Compiler, find_compiler
from northbridge_cpu_sim.errors import BuildError
from northbridge_cpu_sim.recipe import Recipe


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
def test_without_a_cache_of_the_user_it_is_in_the_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unusable: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", unusable)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert open_folder(None) == tmp_path / ".cache" / "northbridge" / "cpu_sim"


def test_a_user_without_a_home_is_told_which_variable_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "~")

    with pytest.raises(BuildError, match=r"no home folder .* set NORTHBRIDGE_CPU_SIM_CACHE"):
        open_folder(None)


def shared_with_all(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def shared_with_group(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o770)


def link_elsewhere(folder: Path) -> None:
    target = folder.with_name("elsewhere")
    target.mkdir(mode=0o700)
    folder.symlink_to(target)


def plain_file(folder: Path) -> None:
    folder.touch(mode=0o600)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (shared_with_all, "can be written by others (mode 777; chmod 700 it)"),
        (shared_with_group, "can be written by others (mode 770; chmod 700 it)"),
        (link_elsewhere, "is a symbolic link to "),
        (plain_file, "is not a folder"),
    ],
)
def test_a_folder_that_another_could_have_filled_is_refused(
    tmp_path: Path, make: Callable[[Path], None], problem: str
) -> None:
    make(tmp_path / "cache")

    with pytest.raises(BuildError) as caught:
        open_folder(tmp_path / "cache")

    assert f"{tmp_path / 'cache'}, {problem}" in str(caught.value)
    assert str(caught.value).endswith(": set NORTHBRIDGE_CPU_SIM_CACHE to a folder that only you can write")


def test_a_folder_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    with pytest.raises(BuildError, match=f"belongs to user {owner}, and .* is user {owner + 1}"):
        open_folder(tmp_path)


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_a_folder_that_cannot_be_made_is_refused_with_the_systems_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    def refuse(self: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        raise OSError(code, os.strerror(code), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)

    with pytest.raises(BuildError) as caught:
        open_folder(tmp_path / "cache")

    assert f"cannot be written: {os.strerror(code)}; make room" in str(caught.value)
    assert "set NORTHBRIDGE_CPU_SIM_CACHE to another folder" in str(caught.value)
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


def another_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.14.0")


def another_commit_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "git_version", "0" * 40)


def another_cxx_abi(monkeypatch: pytest.MonkeyPatch) -> None:
    other = not torch.compiled_with_cxx11_abi()
    monkeypatch.setattr(torch, "compiled_with_cxx11_abi", lambda: other)


def another_python_abi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: "cpython-399-x86_64-linux-gnu")


def another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv128")


def another_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 9.99")


@pytest.mark.parametrize(
    "change",
    [
        another_torch,
        another_commit_of_torch,
        another_cxx_abi,
        another_python_abi,
        another_machine,
        another_c_library,
    ],
)
def test_the_key_depends_on_what_the_chip_is_compiled_against(
    monkeypatch: pytest.MonkeyPatch,
    sources: Path,
    compiler: Compiler,
    change: Callable[[pytest.MonkeyPatch], None],
) -> None:
    before = key(Recipe((sources,)), compiler)
    change(monkeypatch)

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


def test_the_key_costs_less_than_50_ms(sources: Path) -> None:
    for number in range(20):
        (sources / f"more_{number}.cpp").write_text("// nothing\n" * 1000)

    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        key(Recipe((sources,)), find_compiler())
        seconds.append(time.perf_counter() - start)

    assert median(seconds) < 0.05
