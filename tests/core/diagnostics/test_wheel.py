"""``northbridge doctor NAME --wheel``: a contract, and a wheel that is read as source."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from northbridge.cli.app import app

MODULE = """
raise SystemExit("this file was run")

def device_count(): ...
def set_device(device): ...
def manual_seed_all(seed): ...
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel that has some of what the backend for Teco relies on."""
    return write_wheel(tmp_path / "torch_sdaa-3.3-py3-none-any.whl", "torch_sdaa")


def write_wheel(path: Path, package: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{package}/__init__.py", f'torch._register_device_module("sdaa", {package}.sdaa)\n')
        archive.writestr(f"{package}/sdaa.py", MODULE)
    return path


def doctor(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["doctor", *arguments])
    return ran.exit_code, " ".join(re.sub(r"[│╭╮╰╯─]", " ", ran.output).split()) if ran.exit_code == 2 else ran.output


def test_a_page_has_each_line_and_a_missing_name_fails(wheel: Path) -> None:
    code, page = doctor("sdaa", "--wheel", str(wheel))

    assert code == 1
    assert page.startswith("# The contract of sdaa and torch_sdaa-3.3-py3-none-any.whl\n")
    assert f"    northbridge doctor sdaa --wheel {wheel}\n" in page
    assert re.search(r"^\d+ lines of contract.toml: \d+ holds, \d+ differs, \d+ absent, \d+ not readable$", page, re.M)
    assert "| `torch.sdaa.device_count` | function | yes | holds | torch_sdaa/sdaa.py:4 |" in page
    assert "| `torch.sdaa.get_rng_state` | function | yes | absent | torch_sdaa.sdaa has no 'get_rng_state' |" in page


def test_the_lines_are_written_as_json(wheel: Path, tmp_path: Path) -> None:
    file = tmp_path / "found.json"

    code, said = doctor("sdaa", "--wheel", str(wheel), "--json", "--output", str(file))

    found = json.loads(said)
    assert (code, found["exit_code"], found["wheel"]) == (1, 1, wheel.name)
    assert json.loads(file.read_text()) == found
    verdicts = {each["name"]: each["verdict"] for each in found["lines"]}
    assert (verdicts["torch.sdaa.set_device"], verdicts["torch.autocast"]) == ("holds", "not readable")


def test_what_cannot_be_compared_is_wrong_usage(wheel: Path, tmp_path: Path) -> None:
    other = write_wheel(tmp_path / "torch_other-1-py3-none-any.whl", "torch_other")

    assert doctor("--wheel", str(wheel))[0] == 2
    assert "--wheel needs NAME" in doctor("--wheel", str(wheel))[1]
    assert "has no contract.toml" in doctor("cpu_sim", "--wheel", str(wheel))[1]
    assert "is not a wheel" in doctor("sdaa", "--wheel", str(tmp_path / "none.whl"))[1]
    assert "has no torch_sdaa. Fix: give a wheel of torch-sdaa" in doctor("sdaa", "--wheel", str(other))[1]


def test_a_wheel_of_which_nothing_can_be_read_fails(tmp_path: Path) -> None:
    path = tmp_path / "torch_sdaa-3.3-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("__init__", "sdaa"):
            archive.writestr(f"torch_sdaa/{name}.py", "def (:")

    code, page = doctor("sdaa", "--wheel", str(path))

    assert code == 1
    assert re.search(r"`torch.sdaa.device_count` \| function \| yes \| not readable \|", page)


def test_a_parser_that_crashes_is_an_error(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(wheel.parent))
    (wheel.parent / "sitecustomize.py").write_text("import ast, os\nast.parse = lambda text: os.abort()\n")

    code, said = doctor("sdaa", "--wheel", str(wheel))

    assert code == 2
    assert f"{wheel.name}: the process that read it was killed by SIGABRT. Fix: give another wheel" in said
