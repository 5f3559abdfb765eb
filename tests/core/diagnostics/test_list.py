"""The list: one row for whatever a plugin may be, and Lightning."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.core.broken_plugins import write_distribution
from tests.core.command import backend, flowing, northbridge, row
from tests.core.conftest import Install, Site

from northbridge.diagnostics import namespaces, torch_import
from northbridge.lightning.versions import INSTALL
from northbridge.processes.child import Reply, Stage, ask

WRITE = "write `import northbridge.lightning` at the top of your script, or unset the variable"
ROWS = {
    "acme": ["0.1.0", "northbridge-acme", "ready", "yes", "2", "no"],
    "hook_raises": ["1.2.3", "northbridge-hook-", "off", "-", "-", "-"],
    "import_exits": ["1.2.3", "northbridge-", "broken", "no", "-", "-"],
    "probe_crashes": ["1.2.3", "northbridge-probe-", "broken", "no", "-", "no"],
    "cuda": ["1.2.3", "northbridge-takes-", "broken", "-", "-", "-"],
    "double": ["1.0", "northbridge-", "broken", "-", "-", "-"],
}
REASONS = (
    "hook_raises switched off by NORTHBRIDGE_DISABLE=cpu_sim,hook_raises,hpu,npu,sdaa,xpu",
    "(northbridge-import-exits 1.2.3) could not be imported: SystemExit: no licence for this machine.",
    "(northbridge-probe-crashes 1.2.3): the process that asked for its devices was killed by SIGSEGV",
    "cuda northbridge-takes-cuda 1.2.3 calls its backend 'cuda', which is Lightning's own word",
    "double backend 'double' is installed twice: northbridge-double-one 1.0 and northbridge-double-two 2.0.",
)


def test_each_has_its_row_and_its_reason_in_full(install: Install, without_lightning: Site) -> None:
    """In an environment with a plugin for each thing that can be said about one."""
    site = install("acme", "hook_raises", "import_exits", "probe_crashes", "takes_cuda", "double_one", "double_two")
    off = "cpu_sim,hook_raises,hpu,npu,sdaa,xpu"

    run = northbridge(without_lightning.beside(*site.folders), "list", NORTHBRIDGE_DISABLE=off)

    assert {name: row(run.stdout, name)[1:] for name in ROWS} == ROWS
    assert [reason for reason in REASONS if reason not in flowing(run.stdout)] == []
    assert max(len(line) for line in run.stdout.splitlines()) <= 80
    assert "…" not in run.stdout
    assert run.returncode == 1
    assert run.stderr.endswith("asking in child processes, which may take minutes\n")  # redirected, and it lasts
    assert run.stderr.count("\n") == 1


def test_chip_without_a_library_is_ready_and_says_so(install: Install, without_lightning: Site) -> None:
    site = install("lazy")

    off = "cpu_sim,hpu,npu,sdaa,xpu"
    listed = northbridge(without_lightning.beside(*site.folders), "list", NORTHBRIDGE_DISABLE=off)

    assert row(listed.stdout, "lazy")[3:6] == ["ready", "yes", "1"]
    assert "lazy it has no communication library: it trains on one device" in flowing(listed.stdout)


def test_what_is_simply_not_there_is_no_error(install: Install, without_lightning: Site) -> None:
    site = without_lightning.beside(*install("load_needs_software", "no_hardware").folders)

    run = northbridge(site, "list", "--json", _NORTHBRIDGE_DETECTED='{"no_hardware": {"devices": 8}}')

    software, hardware = backend("load_needs_software", run), backend("no_hardware", run)
    assert (software["status"], software["loadable"], software["devices"]) == ("no software", False, 0)
    assert "its software 'torch_load_needs_software' is not installed. Fix: install" in software["reason"]
    # What another process of this tree was told, in the variable above, is asked anew.
    assert (hardware["status"], hardware["loadable"], hardware["devices"]) == ("no hardware", True, 0)
    assert hardware["reason"] == "this machine has no such device"
    assert run.returncode == 0


def test_the_list_compiles_nothing(install: Install, tmp_path: Path) -> None:
    """It says so of the simulated chip, also where the stand-ins of a vendor are imported with torch."""
    run = northbridge(
        install("acme"),
        "list",
        NORTHBRIDGE_CPU_SIM_CACHE=str(tmp_path / "cache"),
        NORTHBRIDGE_DISABLE="hpu,npu,xpu",
        NORTHBRIDGE_SIMULATE="sdaa",
    )

    assert [row(run.stdout, name)[3:5] for name in ("cpu_sim", "sdaa")] == [["no software", "no"]] * 2
    assert flowing(run.stdout).count("the simulated chip is not compiled yet. Fix: use it, which compiles it") == 2
    assert (run.returncode, list((tmp_path / "cache").iterdir())) == (0, [])


def test_each_namespace_is_registered(tmp_path: Path) -> None:
    run = northbridge(Site((), tmp_path), "list", "--json")

    facts = ("version", "distribution", "status", "reason")
    found = {each["name"]: [each[fact] for fact in facts] for each in json.loads(run.stdout)["namespaces"]}
    assert found == {
        name: [version(distribution), distribution, "registered", ""]
        for distribution, names in (
            ("lightning", ("lightning.pytorch", "lightning.fabric")),
            ("pytorch-lightning", ("pytorch_lightning", "lightning_fabric")),
        )
        for name in names
    }


@pytest.mark.parametrize(
    ("variable", "value", "status", "reason"),
    [
        ("TORCH_DEVICE_BACKEND_AUTOLOAD", "0", "not registered", f"=0 keeps torch from starting Northbridge: {WRITE}"),
        ("NORTHBRIDGE_DISABLE", "1", "off", "=1"),
    ],
)
def test_where_nothing_is_registered_it_says_why(
    tmp_path: Path, variable: str, value: str, status: str, reason: str
) -> None:
    run = northbridge(Site((), tmp_path), "list", "--json", **{variable: value})

    found = json.loads(run.stdout)["namespaces"]
    assert {(namespace["status"], namespace["reason"]) for namespace in found} == {(status, f"{variable}{reason}")}
    assert run.returncode == 0


def test_where_there_is_none_it_says_what_to_install(without_lightning: Site) -> None:
    run = northbridge(without_lightning, "list")

    assert f"Lightning is not installed. Fix: {INSTALL}" in flowing(run.stdout)
    assert run.returncode == 0


def test_a_malicious_upload_is_named_and_not_imported(without_lightning: Site, tmp_path: Path) -> None:
    stolen = tmp_path / "stolen"
    site = _install_lightning(without_lightning, "2.6.3", tmp_path, f"open({str(stolen)!r}, 'w')")

    run = northbridge(site, "list")

    assert row(run.stdout, "lightning.pytorch") == ["lightning.pytorch", "2.6.3", "lightning", "malicious"]
    assert "lightning 2.6.3 was a malicious upload: uninstall it now" in flowing(run.stdout)
    assert (run.returncode, stolen.exists()) == (1, False)


def test_a_good_lightning_beside_a_malicious_one_is_left_alone(without_lightning: Site, tmp_path: Path) -> None:
    site = _install_lightning(without_lightning, "2.6.6", tmp_path, "raise SystemExit('imported')")
    site = _install_lightning(site, "2.6.2", tmp_path, "raise SystemExit('imported')", "pytorch-lightning")

    listed, run = northbridge(site, "list"), northbridge(site, "conformance", "hpu")

    assert row(listed.stdout, "lightning.pytorch") == ["lightning.pytorch", "2.6.6", "lightning", "left alone"]
    assert row(listed.stdout, "pytorch_lightning")[-1] == "malicious"
    assert flowing(listed.stdout).count("pytorch-lightning 2.6.2 was a malicious upload: uninstall it now") == 4
    assert (listed.returncode, run.returncode) == (1, 1)
    assert run.stderr.startswith("northbridge: pytorch-lightning 2.6.2 was a malicious upload: uninstall it now")


def test_one_that_cannot_be_imported_is_broken(without_lightning: Site, tmp_path: Path) -> None:
    site = _install_lightning(without_lightning, "2.6.6", tmp_path, "raise ImportError('half of it is missing')")

    listed, run = northbridge(site, "list"), northbridge(site, "doctor")

    assert row(listed.stdout, "lightning.pytorch")[-1] == "registered"  # by its metadata
    assert row(run.stdout, "lightning.pytorch")[-1] == "broken"
    assert "import lightning.pytorch raised ImportError: half of it is missing; reinstall it" in flowing(run.stdout)
    assert run.returncode == 1


@pytest.mark.parametrize(
    ("version", "status", "reason", "code"),
    [
        ("2.7.9", "registered", "untested: lightning.fabric 2.7.9 (newer than 2.6.6, the newest that was", 0),
        ("2.8.0", "left alone", "version 2.8.0 is not supported. Fix: pip install 'lightning>=2.4,!=2.6.2", 1),
    ],
)
def test_a_release_that_was_not_tested(
    without_lightning: Site, tmp_path: Path, version: str, status: str, reason: str, code: int
) -> None:
    site = _install_lightning(without_lightning, version, tmp_path, "")
    _fill_with_the_real_one(tmp_path / "lightning", version)

    run = northbridge(site, "list")

    assert row(run.stdout, "lightning.fabric") == ["lightning.fabric", version, "lightning", status]
    assert reason in flowing(run.stdout)
    assert run.returncode == code


def _install_lightning(site: Site, version: str, folder: Path, body: str, name: str = "lightning") -> Site:
    write_distribution(folder, name, version, {}, {f"{name.replace('-', '_')}/__init__.py": body})
    return site.beside(folder)


def _fill_with_the_real_one(package: Path, version: str) -> None:
    (real,) = (Path(each) / "lightning" for each in sys.path if (Path(each) / "lightning").is_dir())
    (package / "__init__.py").unlink()
    for each in real.iterdir():
        (package / each.name).symlink_to(each)
    (package / "version.info").unlink()
    (package / "version.info").write_text(version)


FIX = "set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and write `import northbridge.lightning` at the top of your script"
MISSING = "libbroken.so: cannot open shared object file"


def install_extension(folder: Path, body: str) -> None:
    """Install somebody else's distribution, of which torch runs ``start()`` at the end of its import."""
    source = {"torch_broken.py": f"import os\ndef start():\n    {body}\n"}
    write_distribution(folder, "torch-broken", "1.0", {"torch.backends": {"broken": "torch_broken:start"}}, source)


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


@pytest.mark.parametrize(("body", "told"), list(BREAKS.items())[1:3], ids=["exits", "dies"])
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


@pytest.mark.parametrize(("body", "told"), list(BREAKS.items())[2:], ids=["dies", "is interrupted"])
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

    assert found["status"] == "ready"
    assert found["reason"] == (
        "`import torch_own` switches torch's autoload off while it imports torch. Fix: write `import"
        " northbridge.lightning` at the top of your script"
    )


def test_software_that_leaves_autoload_alone_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch_own.py").write_text("import torch\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert reply_of(torch_import.question("torch_own"), "package").facts == {"switches_off": False}
