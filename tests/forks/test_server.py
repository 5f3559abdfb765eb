"""Imports before a fork."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.forks.conftest import Begin, environ_with


@pytest.fixture
def vendor(tmp_path: Path) -> dict[str, str]:
    """The environment of a process in which torch imports a vendor's software, which prints who does."""
    folder = tmp_path / "vendor"
    (folder / "acme_torch-1.0.dist-info").mkdir(parents=True)
    (folder / "acme_torch-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: acme-torch\nVersion: 1.0\n")
    (folder / "acme_torch-1.0.dist-info/entry_points.txt").write_text("[torch.backends]\nacme = acme_torch:load\n")
    (folder / "acme_torch.py").write_text("import os\ndef load(): print('acme is in', os.getpid())\n")
    return {**environ_with(folder), "OMP_NUM_THREADS": "1"}


def test_a_vendors_software_is_imported_after_the_fork_if_at_all(
    begin: Begin, vendor: dict[str, str], tmp_path: Path
) -> None:
    forks = [begin("fork", "import acme_torch\n", vendor)]
    assert forks[0].wait() == 0
    assert (tmp_path / "fork.txt").read_text() == f"acme is in {forks[0].pid}\n"

    assert begin("fork", "", {**vendor, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}).wait() == 0
    assert (tmp_path / "fork.txt").read_text() == ""


def test_only_lightnings_and_our_imports_come_before_it(begin: Begin, vendor: dict[str, str], tmp_path: Path) -> None:
    tell = "import sys\nprint(*sys.modules)\n"
    silent = {**vendor, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}

    assert begin("fork", tell, silent).wait() == 0
    imports = "import northbridge.lightning.corrections.table, northbridge_conformance, lightning.pytorch"
    assert begin("start", f"{imports}\n{tell}", silent).wait() == 0

    before, after = (set((tmp_path / f"{how}.txt").read_text().split()) for how in ("fork", "start"))
    assert {"torch._dynamo", "torchmetrics", "northbridge.lightning.connector.registry"} <= before
    assert before - after == {
        "tests",
        *(f"tests.forks{module}" for module in ("", ".entry", ".linux_environ", ".program", ".ranks", ".server")),
    }


def test_lightning_is_imported_before_the_fork(begin: Begin, tmp_path: Path) -> None:
    tell = """
import sys
before = "lightning.pytorch.trainer.connectors.accelerator_connector" in sys.modules
from lightning.fabric.accelerators import ACCELERATOR_REGISTRY as fabrics
from lightning.pytorch.accelerators import AcceleratorRegistry as trainers
print(before, "cpu_sim" in fabrics, "cpu_sim" in trainers)
"""
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}

    assert begin("fork", tell, environ, imported=("lightning",)).wait() == 0
    assert (tmp_path / "fork.txt").read_text() == "True True True\n"


def test_import_that_starts_a_thread_starts_afresh(
    begin: Begin, modules: Path, quick_torch: dict[str, str], tmp_path: Path
) -> None:
    (modules / "torchmetrics.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )

    with pytest.warns(RuntimeWarning, match=r"torchmetrics, .* left 2 threads, of which a fork has one; set OMP_NUM_"):
        process = begin("fork", "print('done')", quick_torch)

    assert process.wait() == 0
    assert (tmp_path / "fork.txt").read_text() == "done\n"


def test_torchmetrics_need_not_be_installed(
    begin: Begin, modules: Path, quick_torch: dict[str, str], tmp_path: Path
) -> None:
    hide = "import sys\nfrom importlib.machinery import PathFinder\nfind = PathFinder.find_spec\n"
    hide += "PathFinder.find_spec = lambda name, *rest: None if name == 'torchmetrics' else find(name, *rest)\n"
    (modules / "sitecustomize.py").write_text(hide)

    tell = "import sys\nprint('torch' in sys.modules, 'torchmetrics' in sys.modules)"
    assert begin("fork", tell, quick_torch).wait() == 0
    assert (tmp_path / "fork.txt").read_text() == "True False\n"
