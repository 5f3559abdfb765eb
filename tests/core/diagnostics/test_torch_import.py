"""The list if `import torch` fails, or does not start Northbridge."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.core.command import backend, northbridge, row
from tests.core.conftest import Site

from northbridge.diagnostics import namespaces, torch_import
from northbridge.processes.child import Reply, Stage, ask

FIX = "set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and write `import northbridge.lightning` at the top of your script"
MISSING = "libbroken.so: cannot open shared object file"


def install_extension(folder: Path, body: str) -> None:
    """Install somebody else's distribution, of which torch runs ``start()`` at the end of its import."""
    info = folder / "torch_broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\nbroken = torch_broken:start\n")
    (folder / "torch_broken.py").write_text(f"import os\ndef start():\n    {body}\n")


def reply_of(question: str, stage: str) -> Reply:
    stages = {stage: Stage("importing it", 60.0, "wait"), "torch": torch_import.STAGE}
    return ask(question, stages)


RUNS = "the process that imports torch and runs code of torch-broken 1.0 "
BREAKS = {
    f"raise ImportError('{MISSING}')": f"torch-broken 1.0 breaks `import torch`: ImportError: {MISSING}. Fix",
    "raise SystemExit(0)": "torch-broken 1.0 breaks `import torch`: SystemExit: 0. Fix: ",
    "os._exit(0)": f"{RUNS}ended with exit code 0 while importing torch. Fix: match it to this torch and driver, or",
    "raise KeyboardInterrupt": f"{RUNS}was killed by",
}


@pytest.mark.parametrize(("body", "told"), list(BREAKS.items())[:3], ids=["raises", "exits", "dies"])
def test_who_breaks_the_import_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, told: str) -> None:
    install_extension(tmp_path, body)
    monkeypatch.syspath_prepend(tmp_path)

    problem = torch_import.problem_of(reply_of(namespaces.question([]), "torch"))

    assert problem.startswith(told)
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in problem
    assert "import northbridge.lightning" in problem


def test_a_torch_that_is_broken_itself_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libtorch.so: file too short')")
    monkeypatch.syspath_prepend(tmp_path)

    problem = torch_import.problem_of(reply_of(namespaces.question([]), "torch"))

    assert problem == "`import torch` raised OSError: libtorch.so: file too short. Fix: reinstall torch"


@pytest.mark.parametrize("command", ["list", "doctor --output found.json"])
def test_somebody_elses_broken_extension_comes_first_and_alone(tmp_path: Path, command: str) -> None:
    install_extension(tmp_path, f"raise ImportError('{MISSING}')")
    expected = f"torch-broken 1.0 breaks `import torch`: ImportError: {MISSING}. Fix: repair or uninstall it, or {FIX}"

    run = northbridge(Site((tmp_path,), tmp_path), *command.split())

    assert run.returncode == 1
    assert run.stdout.splitlines()[0] == expected
    assert row(run.stdout, "hpu")[3:] == row(run.stdout, "sdaa")[3:] == ["not asked"] * 4
    assert row(run.stdout, "lightning.pytorch")[-1] == "not asked"
    if command != "list":
        found = json.loads((tmp_path / "found.json").read_text())
        assert found["torch_problem"] == expected
        assert found["selection"]["reason"] == "torch cannot be imported"
        assert [each["what"] for each in found["advice"] if each["level"] == "wrong"] == [expected]


@pytest.mark.parametrize(("body", "told"), BREAKS.items(), ids=["raises", "exits", "dies", "is interrupted"])
def test_a_suite_that_cannot_import_torch_grants_nothing(tmp_path: Path, body: str, told: str) -> None:
    """Exit code 0 would say that the level is granted."""
    install_extension(tmp_path, body)

    arguments = ("conformance", "cpu_sim", "--level", "C0", "--out", "report")

    run = northbridge(Site((tmp_path,), tmp_path), *arguments, NORTHBRIDGE_DISABLE="")

    assert run.returncode == 1
    assert run.stderr.startswith(f"northbridge: {told}")
    assert not (tmp_path / "report").exists()


SWITCHING = """
import os

before = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import torch

if before is None:
    del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
"""


def test_software_that_switches_autoload_off_is_told(write_plugin: Callable[[str, str], Site]) -> None:
    site = write_plugin("own", "Software.package = 'torch_own'")
    (site.folders[-1] / "torch_own.py").write_text(SWITCHING)

    found = backend("own", northbridge(site, "list", "--json"))

    assert (found["status"], found["reason"]) == (
        "ready",
        (
            "`import torch_own` switches torch's autoload off while it imports torch. Fix: write `import"
            " northbridge.lightning` at the top of your script"
        ),
    )


def test_software_that_leaves_autoload_alone_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch_own.py").write_text("import torch\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert reply_of(torch_import.question("torch_own"), "package").facts == {"switches_off": False}
