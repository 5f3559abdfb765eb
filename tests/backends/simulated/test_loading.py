"""Loading a simulated chip on a machine that cannot compile it."""

from __future__ import annotations

from pathlib import Path

from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.processes import Run


def test_without_a_compiler_the_error_names_it(sim: SimChip, run: Run, tmp_path: Path) -> None:
    program = f"""
        import northbridge
        try:
            northbridge.load({sim.name!r})
        except northbridge.NorthbridgeError as error:
            print(error)
    """

    said = run(program, first="", NORTHBRIDGE_CPU_SIM_CACHE=str(tmp_path), CXX="/bin/false").splitlines()[-1]

    assert said.startswith("compiling the simulated chip failed: ")
    assert "Fix: another compiler (CXX=clang++); see " in said
