"""The command `northbridge`: what a user reads, and what a script is told."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.core.broken_plugins import write_distribution
from tests.core.command import NO_CHIP, backend, command, flowing, northbridge, northbridge_here, row
from tests.core.conftest import Install, Site
from typer.testing import CliRunner

from northbridge.cli.app import app

COMMANDS = """
import typer
app = typer.Typer()
@app.command("acme-greet")
def greet() -> None:
    print("hello")
"""


def test_without_arguments_it_prints_help() -> None:
    told = northbridge_here()

    assert told.code in (0, None)
    assert "northbridge [OPTIONS] COMMAND [ARGS]..." in told.out
    assert "1  torch or a backend is broken" in told.out
    assert northbridge_here("--version").out == f"northbridge {version('northbridge')}\n"
    doctor = northbridge_here("doctor", "--help").out
    assert "3  the software of the backend NAME is not installed" in doctor
    assert "4  the hardware of the backend NAME is not here" in doctor


NO_SUCH_NAME = "no backend {!r} is installed; found acme, "
NOT_NAMES = (
    "NORTHBRIDGE_DISABLE='cpu-sim' is not 1 (all), or names of backends with commas between. Fix: correct or unset it"
)
NO_ACME = f"NORTHBRIDGE_SIMULATE=ACME: {NO_SUCH_NAME.format('ACME')}"
WRONG_USAGE: list[tuple[str, dict[str, str], str, str]] = [
    ("list --jsom", {}, "", "No such option: --jsom"),
    ("doctor --jsom", {}, "", "No such option: --jsom"),
    (
        *("doctor npu --wheel torch-npu==2.14.0", {}, ""),
        "--wheel is gone. Fix: python -m tools.contract npu torch-npu==2.14.0, in a clone",
    ),
    *((each, {"DISABLE": "cpu-sim"}, NOT_NAMES, "") for each in ("list", "list --no-probe", "list --json")),
    (
        *("list --no-probe", {"DISABLE": "CPU_SIM"}),
        *(f"NORTHBRIDGE_DISABLE='CPU_SIM': {NO_SUCH_NAME.format('CPU_SIM')}", "Did you mean 'cpu_sim'?"),
    ),
    ("doctor acmee", {}, NO_SUCH_NAME.format("acmee"), ". Did you mean 'acme'?"),
    ("doctor", {"DETECT_TIMEOUT": "soon"}, "NORTHBRIDGE_DETECT_TIMEOUT='soon' is not a number", ""),
    ("doctor --output no_such_folder/found.json", {}, "", "/no_such_folder is not a writable folder"),
    ("doctor --output \x1b]0;OWNED\x07no_such_folder/found.json", {}, "", "no_such_folder is not a writable folder"),
    *(
        (each, {"SIMULATE": "ACME"}, NO_ACME, "Did you mean 'acme'?")
        for each in ("list", "doctor", "conformance cpu_sim")
    ),
    ("conformance cpu_sim", {"DISABLE": "cpu_sim"}, "backend 'cpu_sim' (northbridge-cpu-sim 0.1.0) is disabled", ""),
    ("conformance double", {}, "backend 'double' is installed twice: northbridge-double-one 1.0 ", ""),
    ("conformance cuda", {}, "northbridge-takes-cuda 1.2.3 calls its backend 'cuda', which is Lightning's", ""),
]


@pytest.mark.parametrize(("arguments", "settings", "begins", "says"), WRONG_USAGE)
def test_wrong_usage_is_told_before_anything_starts(
    arguments: str,
    settings: dict[str, str],
    begins: str,
    says: str,
    install_here: Install,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one line, where it is not typer's, and without a code of a terminal's."""
    install_here("acme", "double_one", "double_two", "takes_cuda")
    monkeypatch.chdir(tmp_path)
    for name, text in settings.items():
        monkeypatch.setenv(f"NORTHBRIDGE_{name}", text)

    told = northbridge_here(*arguments.split(" "))

    assert (told.code, told.out) == (2, "")
    assert says in flowing(told.err)
    assert told.err.startswith(f"northbridge: {begins}") or not begins
    assert told.err.count("\n") == 1 or not begins
    assert not {"\x1b", "\x07"} & {*told.err}


def test_commands_of_another_distribution(tmp_path: Path) -> None:
    """Those that are missing disturb no others."""
    said = (
        "northbridge: acme_absent:app: its commands are missing: ModuleNotFoundError: No module named"
        " 'acme_absent'. Fix: reinstall it\n"
    )
    points = {"acme": "acme_commands:app", "absent": "acme_absent:app"}
    write_distribution(tmp_path, "acme", "1.0", {"northbridge.commands": points}, {"acme_commands.py": COMMANDS})
    site = Site((tmp_path,), tmp_path)

    listed, own = northbridge(site, "list", "--no-probe"), northbridge(site, "acme-greet")

    assert (listed.returncode, listed.stderr) == (0, said)
    assert (own.returncode, own.stdout) == (0, "hello\n")


class TestMetadataAlone:
    def test_what_metadata_say_does_nothing_on_a_terminal(self, tmp_path: Path) -> None:
        folder = tmp_path / "evil-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\x1b[2J\nVersion: 1.0\x1b]0;owned\x07\n")
        (folder / "entry_points.txt").write_text("[northbridge.backends]\nevil\x9b31m = evil_module\n")

        run = northbridge(Site((tmp_path,), tmp_path), "list", "--no-probe")
        printed = northbridge(Site((tmp_path,), tmp_path), "list", "--no-probe", "--json").stdout

        assert "evil\\u0" in run.stdout  # as far as its column goes
        assert not {"\x1b", "\x07", "\x9b"} & {*run.stdout, *run.stderr}
        (evil,) = (each for each in json.loads(printed)["backends"] if each["name"].startswith("evil"))
        assert (evil["name"], evil["distribution"]) == ("evil\\u009b31m", "evil")

    def test_entry_points_that_cannot_be_read_are_one_line(self, tmp_path: Path) -> None:
        folder = tmp_path / "other-1.0.dist-info"
        folder.mkdir()
        (folder / "entry_points.txt").write_bytes(b"\xff")

        run = northbridge(Site((tmp_path,), tmp_path), "list")  # which imports pydantic, which reads them first

        assert (run.returncode, run.stdout, run.stderr.count("\n")) == (2, "", 1)
        assert run.stderr.startswith(f"northbridge: {folder / 'entry_points.txt'} cannot be read: UnicodeDecodeError")

    def test_it_imports_neither_torch_nor_a_plugin(self, install: Install) -> None:
        heavy = {"torch", "northbridge.settings", "northbridge_import_raises", "northbridge_cpu_sim"}
        tell = f"import sys, atexit; atexit.register(lambda: print({heavy} & set(sys.modules), file=sys.stderr)); "

        run = install("import_raises").python(tell + command("list", "--no-probe"))

        assert row(run.stdout, "import_raises")[-4:] == ["not asked"] * 4
        assert row(run.stdout, "lightning.pytorch")[-1] == "not asked"
        assert (run.returncode, run.stderr) == (0, "set()\n")

    def test_two_claims_of_one_name_are_one_row_that_names_both(self, install: Install) -> None:
        """And everything can be switched off."""
        site = install("double_one", "double_two", "acme", "takes_cuda")
        off = northbridge(site, "list", "--no-probe", NORTHBRIDGE_DISABLE="1")
        assert [row(off.stdout, name)[3] for name in ("acme", "cpu_sim", "cuda")] == ["off"] * 3
        assert "acme switched off by NORTHBRIDGE_DISABLE=1" in flowing(off.stdout)
        assert off.returncode == 0

        run = northbridge(site, "list", "--json", "--no-probe")

        (double,) = (each for each in json.loads(run.stdout)["backends"] if each["name"] == "double")
        assert (double["status"], run.returncode) == ("broken", 1)
        assert double["distribution"] == "northbridge-double-one, northbridge-double-two"

    def test_a_broken_row_is_red_on_a_terminal_and_plain_in_a_pipe(self, install: Install) -> None:
        site = install("takes_cuda")
        ours, theirs = pty.openpty()
        environ = {**os.environ, **NO_CHIP, "PYTHONPATH": str(site.folders[0]), "TERM": "xterm", "COLUMNS": "80"}
        environ.pop("NO_COLOR", None)

        subprocess.run([sys.executable, "-c", command("list", "--no-probe")], env=environ, stdout=theirs, check=False)
        os.close(theirs)
        on_terminal = _read_all(ours)

        assert "\x1b[31mcuda" in on_terminal
        assert "\x1b" not in northbridge(site, "list", "--no-probe").stdout


def _read_all(terminal: int) -> str:
    text = b""
    try:
        while part := os.read(terminal, 65536):
            text += part
    except OSError:  # what Linux says when the other end is closed
        pass
    os.close(terminal)
    return text.decode()


def test_the_simulated_chip_is_ready_with_its_devices(tmp_path: Path) -> None:
    code, environ = command("list", "--json"), {**os.environ, "NORTHBRIDGE_CPU_SIM_DEVICES": "3"}

    # No limit but the test's own: it may be the first to compile the chip.
    run = subprocess.run(
        [sys.executable, "-c", code], env=environ, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=False
    )

    chip = backend("cpu_sim", run)
    assert (chip["status"], chip["loadable"], chip["devices"], chip["simulated"]) == ("ready", True, 3, True)
    assert run.returncode == 0


KERNEL = {"ph": "X", "cat": "kernel", "name": "mm", "pid": 0, "tid": 7, "ts": 2.0, "dur": 4.0}
OPERATOR = {**KERNEL, "cat": "cpu_op", "name": "aten::mm", "pid": 77}


def written(path: Path, *events: object) -> str:
    path.write_text(json.dumps({"traceEvents": events}))
    return str(path)


def test_several_files_are_one_table(tmp_path: Path) -> None:
    """Without an event of a device the exit code is 1, and what is not a trace is wrong usage."""
    other, half = {**KERNEL, "name": "add", "dur": 12.0}, tmp_path / "half.json"
    first, second = written(tmp_path / "0.json", KERNEL, OPERATOR), written(tmp_path / "1.json", KERNEL, other)
    half.write_text('{"traceEvents": [')

    ran = CliRunner().invoke(app, ["profile", first, second, "--rows", "1"])
    none = CliRunner().invoke(app, ["profile", written(tmp_path / "2.json", OPERATOR)])
    wrong = CliRunner().invoke(app, ["profile", str(half)])

    assert (ran.exit_code, none.exit_code, wrong.exit_code) == (0, 1, 2)
    assert ran.stdout == (
        "name          count      total       mean   share\n"
        "-------------------------------------------------\n"
        "add               1  12.000 us  12.000 us   60.0%\n"
        "1 other name      2   8.000 us   4.000 us   40.0%\n"
        "-------------------------------------------------\n"
        "all               3  20.000 us   6.667 us  100.0%\n"
    )
    assert none.stdout.startswith("none: the trace has no device's row. Events of the host: 1 cpu_op. Fix: ")
    assert wrong.stderr.startswith(f"northbridge: {half} is not complete JSON: ")
