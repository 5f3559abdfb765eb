"""``python -m tools.contract``: a contract, compared with a wheel that is read as source."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tools.contract import Compared, app, compare
from tools.wheel import Wheel
from typer.testing import CliRunner

from northbridge.contract import Contract

FILES = {
    "torch_acme/__init__.py": "import torch\n\ntorch._register_device_module('acme', torch_acme.acme)\n"
    "raise RuntimeError('this file was run')\n",
    "torch_acme/acme/__init__.py": """
from torch_acme._C import compiled
from torch_acme.elsewhere import moved as renamed
from .memory import *
from . import graphs
from .graphs import Graph

if True:
    def device_count():
        return 1

default = device_count
generators = tuple(range(3))

@jit
def wrapped(index): ...

def anything(*args, **kwargs): ...
""",
    "torch_acme/acme/memory.py": "__all__ = ['stats']\n\ndef stats(device=None): ...\n\ndef hidden(): ...\n",
    "torch_acme/acme/graphs.py": """
from torch import External

class Base:
    def __init__(self, size, pool=None): ...
    def replay(self, count=1): ...

class Graph(Base):
    @staticmethod
    def make(size): ...

class Foreign(External):
    pass

class Ring(Base, Ringed): ...
class Ringed(Ring): ...
""",
    "torch_acme/lazy.py": "import os\n\nwhere = os.getenv('ACME_HOME')\n\ndef __getattr__(name): ...\n",
    "torch_acme/elsewhere.py": "def moved(index, *, strict): ...\n",
    "torch_acme/broken.py": "def (:\n",
    "torch_acme/double.py": "def twice(a, a): ...\n",
    "torch_acme/_C.cpython-311-x86_64-linux-gnu.so": "\x7fELF reads ACME_DEVICES here",
}

LINES = {
    # name: kind, signature, verdict, what is said
    "torch.acme": ("module", "", "holds", "torch_acme/acme/__init__.py"),
    "torch.acme.device_count": ("function", "() -> int", "holds", "torch_acme/acme/__init__.py:9"),
    "torch.acme.default": ("function", "(index)", "differs", "it has no parameter 'index': ()"),
    "torch.acme.stats": ("function", "(device=None)", "holds", "torch_acme/acme/memory.py:3"),
    "torch.acme.hidden": ("function", "()", "absent", "torch_acme.acme has no 'hidden'"),
    "torch.acme.renamed": ("function", "(index)", "differs", "it asks for 'strict' too"),
    "torch.acme.Graph": ("class", "(size)", "holds", "torch_acme/acme/graphs.py:8"),
    "torch.acme.Graph.replay": ("method", "(count=1)", "holds", "torch_acme/acme/graphs.py:6"),
    "torch.acme.Graph.make": ("method", "(size)", "holds", "torch_acme/acme/graphs.py:9"),
    "torch.acme.Graph.reset": ("method", "()", "absent", "Graph has no 'reset'"),
    "torch.acme.graphs.Foreign.reset": ("method", "()", "not readable", "torch is not in this wheel"),
    "torch.acme.graphs.Ring.reset": ("method", "()", "not readable", "it leads back to itself"),
    "torch_acme.double.twice": ("function", "()", "not readable", "it has no signature that can be read"),
    "torch.acme.generators": ("attribute", "", "holds", "torch_acme/acme/__init__.py:13"),
    "torch.acme.device_count.cached": ("attribute", "", "not readable", "made at run time"),
    "torch.acme.wrapped": ("function", "(index)", "not readable", "it is decorated by jit"),
    "torch.acme.anything": ("function", "(index)", "not readable", "it accepts anything"),
    "torch.acme.compiled": ("function", "()", "not readable", "torch_acme._C is compiled"),
    "torch.acme.amp": ("absent", "", "holds", ""),
    "torch.acme.memory": ("absent", "", "differs", "it is there: torch_acme/acme/memory.py"),
    "torch_acme.lazy.name": ("attribute", "", "not readable", "makes names at run time"),
    "torch_acme.broken.name": ("attribute", "", "not readable", "is not source for Python"),
    "torch_acme.nowhere": ("module", "", "absent", "torch_acme has no 'nowhere'"),
    "torch.profiler.Activity": ("attribute", "", "not readable", "torch is not in this wheel"),
    "ACME_HOME": ("environment", "", "holds", "torch_acme/lazy.py"),
    "ACME_DEVICES": ("environment", "", "holds", "torch_acme/_C"),
    "ACME": ("environment", "", "absent", "no file names it"),
    "it is fast": ("behaviour", "", "not readable", "a behaviour"),
}


Compare = Callable[[dict[str, str], str, Mapping[str, tuple[str, ...]]], dict[str, Compared]]


@pytest.fixture
def compare_with(tmp_path: Path) -> Compare:
    """Compare symbols, each by name with its kind and signature, with a wheel of some files and its package."""

    def compare_lines(
        files: dict[str, str], package: str, symbols: Mapping[str, tuple[str, ...]]
    ) -> dict[str, Compared]:
        lines = ['vendor = "Acme"', f'packages = ["{package}"]']
        for name, (kind, signature, *_) in symbols.items():
            lines += ["[[symbol]]", f'name = "{name}"', f'kind = "{kind}"', 'meaning = "it"', 'evidence = "inferred"']
            lines += ['source = "https://acme.example"', *([f'signature = "{signature}"'] if signature else [])]
        (tmp_path / "contract.toml").write_text("\n".join(lines))
        wheel = Wheel(write_wheel(tmp_path / "acme.whl", files), tmp_path / "unpacked", "acme")
        return {each.name: each for each in compare(Contract.read(tmp_path / "contract.toml"), wheel)}

    return compare_lines


def write_wheel(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text.encode("latin-1"))
    return path


def test_each_line_is_judged_by_the_source(compare_with: Compare) -> None:
    compared = compare_with(FILES, "torch_acme", LINES)

    assert {name: each.verdict for name, each in compared.items()} == {
        name: verdict for name, (_, _, verdict, _) in LINES.items()
    }
    assert [name for name, (*_, said) in LINES.items() if said not in compared[name].found] == []
    # Only a symbol that is required breaks the contract.
    assert {name for name, each in compared.items() if each.is_broken} == {
        name for name, (_, _, verdict, _) in LINES.items() if verdict in ("differs", "absent")
    } - {"ACME", "torch.acme.memory"}


@pytest.mark.parametrize(
    ("package", "files", "verdict", "said"),
    [
        ("torch_acme", {"torch_acme/__init__.py": ""}, "not readable", "no module here registers torch.acme with"),
        (
            "torch",
            {"torch/__init__.py": "", "torch/acme/__init__.py": "def count(): ...\n"},
            "differs",
            "torch/acme/__init__.py:1: it has no parameter 'index': ()",
        ),
    ],
    ids=["a module that is not registered", "a device of torch's own"],
)
def test_where_a_device_is_looked_up(
    compare_with: Compare, package: str, files: dict[str, str], verdict: str, said: str
) -> None:
    (found,) = compare_with(files, package, {"torch.acme.count": ("function", "(index)")}).values()

    assert found.verdict == verdict
    assert said in found.found


MODULE = """
raise SystemExit("this file was run")

def device_count(): ...
def set_device(device): ...
def manual_seed_all(seed): ...
"""


@pytest.fixture
def teco(tmp_path: Path) -> Path:
    """A wheel that has some of what the backend for Teco relies on."""
    registers = 'torch._register_device_module("sdaa", torch_sdaa.sdaa)\n'
    files = {"torch_sdaa/__init__.py": registers, "torch_sdaa/sdaa.py": MODULE}
    return write_wheel(tmp_path / "torch_sdaa-3.3-py3-none-any.whl", files)


def run(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, arguments)
    return ran.exit_code, " ".join(re.sub(r"[│╭╮╰╯─]", " ", ran.output).split()) if ran.exit_code == 2 else ran.output


def test_a_page_has_each_line_and_a_missing_name_fails(teco: Path) -> None:
    code, page = run("sdaa", str(teco))

    assert code == 1
    assert page.startswith("# The contract of sdaa and torch_sdaa-3.3-py3-none-any.whl\n")
    assert f"    python -m tools.contract sdaa {teco}\n" in page
    assert re.search(r"^\d+ lines of contract.toml: \d+ holds, \d+ differs, \d+ absent, \d+ not readable$", page, re.M)
    assert "| `torch.sdaa.device_count` | function | yes | holds | torch_sdaa/sdaa.py:4 |" in page
    assert "| `torch.sdaa.get_rng_state` | function | yes | absent | torch_sdaa.sdaa has no 'get_rng_state' |" in page


def test_what_cannot_be_compared_is_wrong_usage(teco: Path, tmp_path: Path) -> None:
    other = write_wheel(tmp_path / "torch_other-1-py3-none-any.whl", {"torch_other/__init__.py": ""})

    for name, wheel, said in (
        ("cpu_sim", teco, "has no contract.toml"),
        ("hpv", teco, "no backend 'hpv' is installed"),
        ("sdaa", tmp_path / "none.whl", "is not a wheel"),
        ("sdaa", other, "has no torch_sdaa. Fix: give a wheel of torch-sdaa"),
    ):
        code, output = run(name, str(wheel))
        assert code == 2
        assert said in output
