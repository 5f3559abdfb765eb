"""The simulated teco-smi, which every process of a run asks for its cards."""

from __future__ import annotations

import subprocess
import sys


def test_it_imports_no_torch_which_would_cost_seconds_each_time() -> None:
    program = "import sys; import northbridge_sdaa.simulated.teco_smi; sys.exit('torch' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
