"""Scripts, run in a process of their own on simulated NPUs, or beside a package that passes for the vendor's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import northbridge_npu

STAND_IN = Path(str(northbridge_npu.__file__)).parent / "simulated" / "torch_npu"


def run(folder: Path, script: str, **environ: str) -> str:
    """Run ``script`` with the variables ``environ``, and return what it printed; it must end well."""
    file = folder / "script.py"
    file.write_text(dedent(script))
    given = {name: text for name, text in os.environ.items() if not name.startswith("NORTHBRIDGE_")}
    ended = subprocess.run(
        [sys.executable, file], env={**given, **environ}, cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def install_vendors(folder: Path) -> dict[str, str]:
    """Let the stand-in pass for an installed torch_npu, with its entry point; return the variables that show it."""
    (folder / "torch_npu").symlink_to(STAND_IN)
    metadata = folder / "torch_npu-2.14.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.14.0\n")
    (metadata / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    return {"PYTHONPATH": str(folder)}
