"""How a chip is compiled: the compiler, a key that differs if the result would, and a vendor's sources."""

from __future__ import annotations

import os
import platform
import shutil
import sysconfig
import time
from pathlib import Path
from statistics import median

import pytest
import torch
from tests.backends.cpu_sim.conftest import FLINT

from northbridge_cpu_sim.build.recipe import SHARED, Compiler, Recipe, find_compiler, key, recipe_for
from northbridge_cpu_sim.errors import BuildError
from northbridge_cpu_sim.simulation.simulated_device import SimulatedDevice


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"PATH": "{empty}"}, "no C++ compiler (c++, g++, clang++) is on PATH. Fix: apt install g++"),
        ({"CXX": "clang++-99 -v"}, "CXX='clang++-99 -v' is not on PATH. Fix: install it, or unset CXX"),
        ({"CXX": "g++ '-O2"}, 'CXX="g++ \'-O2" cannot be split: No closing quotation. Fix: balance its quotes'),
    ],
    ids=["none", "missing", "unbalanced"],
)
def test_without_a_compiler_the_user_is_told_what_to_do(tmp_path: Path, environ: dict[str, str], said: str) -> None:
    given = {"PATH": os.environ["PATH"], **environ}

    with pytest.raises(BuildError) as caught:
        find_compiler({name: text.format(empty=tmp_path) for name, text in given.items()})

    assert str(caught.value).startswith(said)
    assert caught.value.backend == "cpu_sim"


def test_a_chosen_compiler_may_come_with_a_wrapper() -> None:
    assert find_compiler({"CXX": "env g++", "PATH": os.environ["PATH"]}).command == "env g++"


def test_an_empty_cxx_counts_as_unset(tmp_path: Path) -> None:
    (program := tmp_path / "g++").touch(mode=0o700)

    assert find_compiler({"CXX": " ", "PATH": str(tmp_path)}).command == str(program)


@pytest.mark.parametrize("entry", ["", "bin"])
def test_a_compiler_of_this_folder_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    """An empty entry of PATH is the working directory; most often nobody meant it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / entry / "g++").touch(mode=0o700)

    with pytest.raises(BuildError, match="no C\\+\\+ compiler"):
        find_compiler({"PATH": f"{entry}{os.pathsep}{tmp_path / 'nothing'}"})


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    folder = tmp_path / "csrc"
    folder.mkdir()
    (folder / "chip.cpp").write_text("int answer() { return 42; }")
    (folder / "chip.h").write_text("int answer();")
    return Recipe((folder,))


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    program = tmp_path / "bin" / "g++"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    return Compiler(str(program))


def test_the_same_build_has_the_same_key(recipe: Recipe, compiler: Compiler) -> None:
    before = key(recipe, compiler)
    (recipe.folders[0] / "chip.cpp~").write_text("an editor's backup")

    assert key(recipe, compiler) == before


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
    monkeypatch: pytest.MonkeyPatch, recipe: Recipe, compiler: Compiler, other: str
) -> None:
    before = key(recipe, compiler)

    monkeypatch.setattr(*OTHERS[other])

    assert key(recipe, compiler) != before


def test_the_key_depends_on_sources_flags_and_compiler(recipe: Recipe, compiler: Compiler) -> None:
    folder, program = recipe.folders[0], Path(compiler.command)
    wrapped = Compiler(f"env {program}")
    copy = shutil.copy2(program, program.with_name("clang++"))
    keys = [
        key(recipe, compiler),
        key(Recipe((folder,), ("-O2", "-g")), compiler),
        key(recipe, Compiler(f"{program} -O0")),
        key(recipe, Compiler(str(copy))),
        key(recipe, wrapped),
    ]

    for file in ("chip.cpp", "chip.h", "another.cpp"):
        (folder / file).write_text("int answer() { return 43; }")
        keys.append(key(recipe, compiler))
    program.write_text("#!/bin/sh\n# version 2\n")

    assert len({*keys, key(recipe, compiler), key(recipe, wrapped)}) == 10


def test_the_key_costs_less_than_50_ms(recipe: Recipe) -> None:
    for number in range(20):
        (recipe.folders[0] / f"more_{number}.cpp").write_text("// nothing\n" * 1000)
    seconds = []

    for _ in range(5):
        start = time.perf_counter()
        key(recipe, find_compiler())
        seconds.append(time.perf_counter() - start)

    assert median(seconds) < 0.05


@pytest.fixture
def flint() -> SimulatedDevice:
    return SimulatedDevice.read(FLINT)


def test_chip_without_key_and_sources_uses_cpu_sims_file(flint: SimulatedDevice) -> None:
    assert recipe_for(flint, None) == Recipe()


@pytest.mark.parametrize(("key", "tables"), [("HPU", ["-DCHIP_REGISTER_DISPATCH=REGISTER_HPU_DISPATCH"]), ("XPU", [])])
def test_a_key_of_its_own_is_told_to_the_compiler(flint: SimulatedDevice, key: str, tables: list[str]) -> None:
    """The kernel tables of a torch without Intel's GPUs have no place for XPU."""
    device = flint.model_copy(update={"type": key.lower(), "key": key})

    assert recipe_for(device, None).flags == (*Recipe().flags, f"-DCHIP_KEY={key}", *tables)


def test_sources_of_a_vendor_are_added_or_replace_those_of_ours(flint: SimulatedDevice, tmp_path: Path) -> None:
    for name in ("autocast.cpp", "more.cpp", "more.h", "notes.txt"):
        (tmp_path / name).touch()

    recipe = recipe_for(flint, tmp_path)

    shared = [file.name for file in SHARED.rglob("*.cpp")]
    assert sorted(file.name for file in recipe.sources()) == sorted([*shared, "more.cpp"])  # each name stands once
    assert {file.name for file in recipe.files() if file.parent == tmp_path} == {"autocast.cpp", "more.cpp", "more.h"}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ((), "{} has no C++ file for a simulated chip"),
        (("chip.h", "more.cpp"), "{}/chip.h is named as a shared header. Fix: rename it"),
    ],
)
def test_unusable_sources_are_refused(
    flint: SimulatedDevice, tmp_path: Path, files: tuple[str, ...], said: str
) -> None:
    for name in files:
        (tmp_path / name).touch()

    with pytest.raises(BuildError) as caught:
        recipe_for(flint, tmp_path)

    assert str(caught.value) == said.format(tmp_path)
