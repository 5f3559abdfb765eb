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
from tests.core.command import NO_CHIP, backend, command, flowing, northbridge, row
from tests.core.conftest import Install, Site

from northbridge.discovery.installed import names

COMMANDS = """
import typer
app = typer.Typer()
@app.command("acme-greet")
def greet() -> None:
    print("hello")
"""


def _announce(site: Path, module: str) -> Path:
    """Install a distribution in ``site`` that announces commands in ``module``."""
    (site / "acme-1.0.dist-info").mkdir(parents=True)
    (site / "acme-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (site / "acme-1.0.dist-info" / "entry_points.txt").write_text(f"[northbridge.commands]\nacme = {module}:app\n")
    (site / "acme_commands.py").write_text(COMMANDS)
    return site


class TestTheCommand:
    def test_without_arguments_it_prints_help(self, tmp_path: Path) -> None:
        run = northbridge(Site((), tmp_path))

        assert run.returncode == 0
        assert "Usage: northbridge [OPTIONS] COMMAND [ARGS]..." in run.stdout
        assert "1  torch or a backend is broken" in run.stdout

    def test_it_says_its_version(self, tmp_path: Path) -> None:
        run = northbridge(Site((), tmp_path), "--version")

        assert (run.returncode, run.stdout) == (0, f"northbridge {version('northbridge')}\n")

    def test_an_option_that_is_not_there_is_wrong_usage(self, tmp_path: Path) -> None:
        run = northbridge(Site((), tmp_path), "list", "--jsom")

        assert run.returncode == 2
        assert "No such option: --jsom" in run.stderr

    def test_doctors_wheel_says_where_it_went(self, tmp_path: Path) -> None:
        run = northbridge(Site((), tmp_path), "doctor", "npu", "--wheel", "torch-npu==2.14.0")

        assert run.returncode == 2
        assert "--wheel is gone. Fix: python -m tools.contract npu torch-npu==2.14.0, in a clone" in flowing(run.stderr)

    @pytest.mark.parametrize(
        ("module", "code", "said"),
        [
            ("acme_commands", 0, ""),
            (
                "acme_absent",
                2,
                (
                    "northbridge: acme_absent:app: its commands are missing: ModuleNotFoundError: No module named"
                    " 'acme_absent'. Fix: reinstall it\n"
                ),
            ),
        ],
    )
    def test_commands_of_another_distribution(self, tmp_path: Path, module: str, code: int, said: str) -> None:
        site = Site((_announce(tmp_path / "site", module),), tmp_path)

        listed, own = northbridge(site, "list", "--no-probe"), northbridge(site, "acme-greet")

        assert (listed.returncode, listed.stderr) == (0, said)
        assert own.returncode == code
        assert "hello" in own.stdout or code

    @pytest.mark.parametrize("arguments", [["list"], ["list", "--no-probe"], ["list", "--json"]], ids=" ".join)
    def test_a_wrong_variable_is_one_line_and_wrong_usage(self, tmp_path: Path, arguments: list[str]) -> None:
        run = northbridge(Site((), tmp_path), *arguments, NORTHBRIDGE_DISABLE="cpu-sim")

        assert (run.returncode, run.stdout) == (2, "")
        assert run.stderr == (
            "northbridge: NORTHBRIDGE_DISABLE='cpu-sim' is not 1 (all), or names of backends"
            " with commas between. Fix: correct or unset it\n"
        )

    def test_disabling_a_name_that_no_backend_has_is_wrong_usage(self, tmp_path: Path) -> None:
        run = northbridge(Site((), tmp_path), "list", "--no-probe", NORTHBRIDGE_DISABLE="CPU_SIM")

        assert (run.returncode, run.stdout) == (2, "")
        assert run.stderr == (
            "northbridge: NORTHBRIDGE_DISABLE='CPU_SIM': no backend 'CPU_SIM' is installed; found"
            f" {', '.join(names())}. Did you mean 'cpu_sim'?\n"
        )


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
        run = northbridge(install("double_one", "double_two"), "list", "--json", "--no-probe")

        (double,) = (each for each in json.loads(run.stdout)["backends"] if each["name"] == "double")
        assert (double["status"], run.returncode) == ("broken", 1)
        assert double["distribution"] == "northbridge-double-one, northbridge-double-two"
        assert double["reason"] == (
            "backend 'double' is installed twice: northbridge-double-one 1.0 and northbridge-double-two 2.0. Fix:"
            " uninstall one"
        )

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

    def test_everything_can_be_switched_off(self, install: Install) -> None:
        run = northbridge(install("acme", "takes_cuda"), "list", "--no-probe", NORTHBRIDGE_DISABLE="1")

        assert [row(run.stdout, name)[3] for name in ("acme", "cpu_sim", "cuda")] == ["off"] * 3
        assert "acme switched off by NORTHBRIDGE_DISABLE=1" in flowing(run.stdout)
        assert run.returncode == 0


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


@pytest.mark.parametrize(
    ("vendors", "name", "words"),
    [
        (("double_one", "double_two"), "double", "backend 'double' is installed twice: northbridge-double-one 1.0 "),
        (("takes_cuda",), "cuda", "northbridge-takes-cuda 1.2.3 calls its backend 'cuda', which is Lightning's"),
    ],
)
def test_name_without_one_backend_ends_in_2(install: Install, vendors: tuple[str, ...], name: str, words: str) -> None:
    run = northbridge(install(*vendors), "conformance", name)

    assert run.returncode == 2
    assert run.stderr.startswith(f"northbridge: {words}")
    assert run.stderr.count("\n") == 1
