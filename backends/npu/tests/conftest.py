"""Scripts, run in a process of their own on simulated NPUs, or beside a package that passes for the vendor's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

import northbridge_npu

STAND_IN = Path(str(northbridge_npu.__file__)).parent / "simulated" / "torch_npu"


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Run a script, with more variables, and return what it printed; it must end well."""

    def run_script(script: str, **environ: str) -> str:
        file = tmp_path / "script.py"
        file.write_text(dedent(script))
        given = {name: text for name, text in os.environ.items() if not name.startswith("NORTHBRIDGE_")}
        ended = subprocess.run(
            [sys.executable, file], env={**given, **environ}, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return run_script


@pytest.fixture
def vendors(tmp_path: Path) -> dict[str, str]:
    """Let the stand-in pass for an installed torch_npu, with its entry point; the variables that show it."""
    (tmp_path / "torch_npu").symlink_to(STAND_IN)
    metadata = tmp_path / "torch_npu-2.14.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.14.0\n")
    (metadata / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    return {"PYTHONPATH": str(tmp_path)}
