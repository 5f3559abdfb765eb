"""The stand-ins for names of ``torch._C`` are those that torch's files of ``torch.xpu`` use."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ELSEWHERE = {"_xpu_getCurrentRawStream"}
"""The names that torch uses outside of ``torch/xpu``: inductor's wrappers have this one."""


NAMED = re.compile(r"""(?:torch\._C(?:\.(?!__dict__)|,\s*"|\.__dict__\[")|from torch\._C import )(\w+)""")
"""The names of ``torch._C`` in a file of torch's: read, imported, asked for or set."""


def run(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process that simulates the chip."""
    environ = {**os.environ, "NORTHBRIDGE_SIMULATE": "xpu", **variables}
    return subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=300, check=False
    )


def test_stand_ins_are_the_names_that_torch_uses() -> None:
    torch = find_spec("torch")
    assert torch is not None
    files = Path(str(torch.origin)).with_name("xpu").glob("*.py")
    used = {name for file in files for name in NAMED.findall(file.read_text(encoding="utf-8"))}
    done = run(
        "import torch, northbridge_xpu.simulated.vendor_import as stand_ins\n"
        "print(*stand_ins.names())\n"
        "print(*vars(torch._C))\n"
        "import inspect; print(inspect.getsourcefile(torch.xpu.set_device))"
    )
    stand_ins, everything, file = done.stdout.splitlines()[-3:]

    assert done.returncode == 0, done.stderr
    assert {name for name in used if "xpu" in name.lower()} == set(stand_ins.split()) - ELSEWHERE
    assert used - set(everything.split()) == set()
    assert Path(file).parts[-3:] == ("torch", "xpu", "__init__.py")


def test_module_has_what_torchs_own_code_gives_it() -> None:
    done = run(
        "import torch\n"
        "x = torch.ones(3, device='xpu:1')\n"
        "properties = torch.xpu.get_device_properties(1)\n"
        "print(torch.xpu._is_compiled(), torch.accelerator.current_accelerator(), torch.xpu.device_count())\n"
        "print(properties.name, properties.total_memory >> 30, len(torch.xpu.default_generators))\n"
        "print(torch.distributed.is_xccl_available(), torch.xpu.memory_allocated(1), x.sum().item())\n"
        "with torch.xpu.stream(torch.xpu.Stream()) as _: print(torch.xpu.current_stream().sycl_queue != 0)\n"
    )

    assert done.stdout.splitlines()[-4:] == [
        "True xpu 12",
        "Intel(R) Data Center GPU Max 1550 64 12",
        "True 12 3.0",
        "True",
    ], done.stderr


@pytest.mark.parametrize(
    ("variables", "count", "memory"),
    [
        ({"ZE_AFFINITY_MASK": "3,1,3"}, 2, 64),
        ({"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}, 6, 128),
        ({"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE", "ZE_AFFINITY_MASK": "0.1,4.0"}, 2, 64),
        ({"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE", "NORTHBRIDGE_XPU_SIM_TILES": "1"}, 12, 64),
    ],
)
def test_hierarchy_and_mask_choose_the_devices(variables: dict[str, str], count: int, memory: int) -> None:
    done = run(
        "import torch; print(torch.xpu.device_count(), torch.xpu.get_device_properties(0).total_memory >> 30)",
        **variables,
    )

    assert done.stdout.splitlines()[-1:] == [f"{count} {memory}"], done.stderr


def test_torch_with_real_support_is_refused() -> None:
    done = run(
        "import torch, northbridge\ntorch._C._has_xpu = True\nnorthbridge.load('xpu')\n",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )

    assert done.returncode == 1
    assert "was built for Intel's GPUs. Fix: unset it" in done.stderr.splitlines()[-1]


def test_simulation_needs_no_autoload_of_torch() -> None:
    done = run(
        "import torch, northbridge\n"
        "print(torch.xpu._is_compiled())\n"
        "xpu = northbridge.load('xpu')\n"
        "print(xpu.capabilities.simulated, torch.ones(2, device='xpu').sum().item())\n"
        "print(xpu.bridge.count_cards([0, 1, 2], total=12))\n",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )

    assert done.stdout.splitlines()[-3:] == ["False", "True 2.0", "2"], done.stderr
