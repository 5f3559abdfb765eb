from __future__ import annotations

import os
from pathlib import Path

import pytest

from northbridge_cpu_sim.compiler import find_compiler
from northbridge_cpu_sim.errors import BuildError


def test_without_a_compiler_the_user_is_told_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        find_compiler({"PATH": str(tmp_path)})

    assert "no C++ compiler (c++, g++, clang++) on PATH: apt install g++" in str(caught.value)
    assert caught.value.backend == "cpu_sim"


def test_a_chosen_compiler_that_is_missing_is_refused_and_not_replaced() -> None:
    with pytest.raises(BuildError) as caught:
        find_compiler({"CXX": "clang++-99 -v", "PATH": os.environ["PATH"]})

    assert str(caught.value) == (
        "CXX='clang++-99 -v' asks for the C++ compiler 'clang++-99', which is not on PATH: install it, or unset CXX"
    )


def test_a_chosen_compiler_may_come_with_a_wrapper() -> None:
    environ = {"CXX": "env g++", "PATH": os.environ["PATH"]}

    assert find_compiler(environ).command == "env g++"


@pytest.mark.parametrize("unset", ["", " "])
def test_an_empty_cxx_counts_as_unset(tmp_path: Path, unset: str) -> None:
    program = tmp_path / "g++"
    program.touch(mode=0o700)

    assert find_compiler({"CXX": unset, "PATH": str(tmp_path)}).command == str(program)
