"""Third parties' real devices: the level of each, and the device's fault behind each test that it fails."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.real.devices import FOLDER, REAL, RealDevice
from tests.real.faults import HERE, Fault, Findings

from northbridge_conformance.report.report import Report

pytestmark = pytest.mark.timeout(1800)  # a run of the suite

CONFORMANCE = (
    "-c",
    "import sys; from northbridge.cli.app import main; sys.argv[0] = 'northbridge'; main()",
    "conformance",
)
DEVICES = [
    pytest.param(
        device,
        id=device.name,
        marks=pytest.mark.skipif(not device.is_asked_for, reason=f"make real DEVICES={device.name} runs it"),
    )
    for device in REAL
]
FAULTS = [
    pytest.param(*device.values, fault, id=f"{device.id}-{fault.what}", marks=device.marks)
    for device in DEVICES
    for fault in Findings.read(str(device.id)).faults
]


@pytest.fixture(scope="module")
def environ(device: RealDevice) -> Iterator[Mapping[str, str]]:
    """The environment of a process that uses the device."""
    with device.running() as environ:
        yield environ


@pytest.fixture(scope="module")
def report(device: RealDevice, environ: Mapping[str, str]) -> Report:
    """The report of the suite up to C2."""
    folder = FOLDER / "reports" / device.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").unlink(missing_ok=True)
    ended = run(device, environ, folder, *CONFORMANCE, device.name, "--level", "C2", "--out", str(folder))
    assert (folder / "report.json").is_file(), ended.stderr
    return Report.read(folder / "report.json")


def run(device: RealDevice, environ: Mapping[str, str], folder: Path, *line: str) -> subprocess.CompletedProcess[str]:
    """Run the device's Python in ``folder``."""
    return subprocess.run(
        [device.python, *line], env=environ, cwd=folder, capture_output=True, text=True, timeout=1700, check=False
    )


@pytest.mark.parametrize("device", DEVICES, scope="module")
def test_it_earns_its_level_and_misses_no_other_test(device: RealDevice, report: Report) -> None:
    assert Findings.read(device.name).compare(report) == []


@pytest.mark.parametrize(("device", "fault"), FAULTS, scope="module")
def test_reproduction_shows_the_fault(
    device: RealDevice, fault: Fault, environ: Mapping[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "reproduction.py"
    script.write_text(fault.code)

    ended = run(device, environ, tmp_path, str(script))

    assert len(fault.code.splitlines()) <= 10
    assert fault.prints in ended.stdout + ended.stderr


@pytest.mark.parametrize("device", DEVICES, scope="module")
def test_two_processes_train_over_the_hosts_memory(
    device: RealDevice, environ: Mapping[str, str], tmp_path: Path
) -> None:
    ended = run(device, environ, tmp_path, str(Path(__file__).with_name("two_processes.py")), device.name)

    where = f"on {device.name}:0, {device.name}:0: as on the CPU"
    assert ended.stdout.splitlines() == [f"{model}: {where}" for model in ("mlp", "convnet", "transformer")], ended


@pytest.mark.parametrize("device", [file.stem for file in HERE.glob("*.toml")])
def test_the_page_says_what_the_table_says(device: str) -> None:
    findings = Findings.read(device)

    assert (HERE / f"{device}.md").read_text() == findings.write_page()
    assert f"earns **{findings.level}**" in findings.head
