"""Do the same as train.py, in a script that imports the vendor's package first."""

import torch  # noqa: F401, I001 - the simulated Gaudi comes with it
import habana_frameworks.torch.distributed.hccl  # noqa: F401 - it writes MASTER_ADDR=localhost and MASTER_PORT=12345

import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).with_name("train.py")), run_name="__main__")
