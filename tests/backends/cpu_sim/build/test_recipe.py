from __future__ import annotations

import os
from pathlib import Path

import pytest

from northbridge_cpu_sim.build.recipe import find_compiler
from northbridge_cpu_sim.errors import BuildError


def test_without_a_compiler_the_user_is_told_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        find_compiler({"PATH": str(tmp_path)})

    assert "no C++ compiler (c++, g++, clang++) is on PATH. Fix: apt install g++" in str(caught.value)
    assert caught.value.backend == "cpu_sim"


def test_missing_chosen_compiler_is_refused() -> None:
    with pytest.raises(BuildError) as caught:
        find_compiler({"CXX": "clang++-99 -v", "PATH": os.environ["PATH"]})

    assert str(caught.value) == ("CXX='clang++-99 -v' is not on PATH. Fix: install it, or unset CXX")


def test_a_chosen_compiler_may_come_with_a_wrapper() -> None:
    environ = {"CXX": "env g++", "PATH": os.environ["PATH"]}

    assert find_compiler(environ).command == "env g++"


@pytest.mark.parametrize("unset", ["", " "])
def test_an_empty_cxx_counts_as_unset(tmp_path: Path, unset: str) -> None:
    program = tmp_path / "g++"
    program.touch(mode=0o700)

    assert find_compiler({"CXX": unset, "PATH": str(tmp_path)}).command == str(program)


@pytest.mark.parametrize("cxx", ["g++ '-O2", 'g++ "-DNAME=x'])
def test_cxx_with_an_unbalanced_quote_is_named(cxx: str) -> None:
    with pytest.raises(BuildError) as caught:
        find_compiler({"CXX": cxx, "PATH": os.environ["PATH"]})

    assert str(caught.value) == (f"CXX={cxx!r} cannot be split: No closing quotation. Fix: balance its quotes")


@pytest.mark.parametrize("entry", ["", ".", "bin"])
def test_a_compiler_of_this_folder_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    """An empty entry of PATH is the working directory; most often nobody meant it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    for folder in (tmp_path, tmp_path / "bin"):
        (folder / "g++").touch(mode=0o700)

    with pytest.raises(BuildError, match="no C\\+\\+ compiler"):
        find_compiler({"PATH": f"{entry}{os.pathsep}{tmp_path / 'nothing'}"})
