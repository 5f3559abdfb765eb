"""The installed files, and their imports."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from tests.forks.suite import forking
from tests.tiers import TIERS

import northbridge
import northbridge_cpu_sim
from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Verdict

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core" / "northbridge"
BACKENDS = {package.name: package for package in (ROOT / "backends").glob("*/northbridge_*")}
APART = {file.parent.name for file in (ROOT / "backends").glob("*/pyproject.toml")}
"""Backends that are distributions of their own."""

SHIPPED = {name: package for name, package in BACKENDS.items() if package.parent.name not in APART}
"""Backends in the distribution ``northbridge``."""

VENDORS_MODULES = ("habana_frameworks", "pyhlml", "torch_npu", "torch_sdaa")
VENDORS_WORDS = re.compile(  # Neural Compressor and MPI serve every chip
    r"(?<![a-z])(hpus?|hccl|habana|gaudi|synapse|sdaa|tccl|teco|tecorigin|npus?|lccl|(?-i:Ascend|ASCEND)|xpu|xccl"
    r"|intel(?! (neural|mpi)))(?![a-z])",
    re.IGNORECASE,
)
TORCHS_KEYS = re.compile(r"\b[HX]PU\b")
"""Dispatch keys of torch's own, which a simulated chip may have."""


def call(command: list[str], cwd: Path, environ: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


# --- The wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    call([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def listing(wheel: Path) -> list[str]:
    with ZipFile(wheel) as archive:
        return archive.namelist()


def test_version_comes_from_the_tag(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    commit = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "--message=a"]
    versions = []
    for command in (["true"], ["git", "init", "--quiet"], commit, ["git", "tag", "v0.3.0rc1"], commit):
        call(command, tmp_path)
        versions.append(call([sys.executable, "-m", "hatchling", "version"], tmp_path).strip())

    assert versions == ["0.1.0", "0.1.0", "0.1.0", "0.3.0rc1", "0.3.0rc1"]


def test_wheel_installs_core_and_backends_only(wheel: Path, listing: list[str]) -> None:
    metadata = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"

    assert {name.split("/")[0] for name in listing} == {"northbridge", *SHIPPED, metadata}


def test_wheel_has_every_source_and_no_product(listing: list[str]) -> None:
    sources = {
        path.relative_to(package.parent).as_posix()
        for package in (CORE, *SHIPPED.values())
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert {name for name in listing if ".dist-info/" not in name} == sources
    assert {Path(name).suffix for name in sources} <= {".py", ".cpp", ".h", ".typed", ".toml", ".html", ".css", ".js"}
    assert {f"{package}/py.typed" for package in ("northbridge", *SHIPPED)} <= sources


def test_wheel_leaves_ci_machinery_out(listing: list[str]) -> None:
    """Code that forks for this repository's tests, or breaks a backend on purpose, is in tests/."""
    ours = re.compile(r"fork|mutat|hunt|wrong_backends")

    assert [name for name in listing if name.startswith("northbridge_conformance/") and ours.search(name)] == []


def test_the_wheel_announces_its_entry_points(wheel: Path, listing: list[str]) -> None:
    (entry_points,) = [name for name in listing if name.endswith("entry_points.txt")]
    announced = ConfigParser()
    with ZipFile(wheel) as archive:
        announced.read_string(archive.read(entry_points).decode())

    groups = {group: dict(announced[group]) for group in announced.sections()}
    strategies = groups.pop("northbridge.strategies")
    assert {name for name in strategies if "fsdp" not in name and "deepspeed" not in name} == {
        "hpu_ddp",
        "hpu_parallel",
        "hpu_single",
        "dpp_sdaa",
    }
    assert groups["northbridge.distributions"].keys() >= APART  # an error names what to install
    assert groups == {
        "console_scripts": {"northbridge": "northbridge.cli.app:main"},
        "northbridge.backends": {
            "cpu_sim": "northbridge_cpu_sim",
            "hpu": "northbridge_hpu",
            "sdaa": "northbridge_sdaa",
        },
        "northbridge.distributions": {name: f"northbridge_{name}" for name in groups["northbridge.distributions"]},
        "northbridge.simulations": {"hpu": "northbridge_hpu.simulated", "sdaa": "northbridge_sdaa.simulated"},
        "northbridge.succeeds": {"lightning_habana": "northbridge_hpu", "lightning_teco": "northbridge_sdaa"},
        "torch.backends": {"northbridge": "northbridge.autoload:arm"},
        "torch.distributed.backends": {"simccl": "northbridge_cpu_sim.collective:load"},
        "torch_dynamo_backends": {"hpu_backend": "northbridge_hpu.compiler:hpu_backend"},
    }


@pytest.fixture(scope="module")
def metadata(wheel: Path, listing: list[str]) -> Message:
    (name,) = [name for name in listing if name.endswith("METADATA")]
    with ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(name).decode())


def requirements(metadata: Message, extra: str = "") -> dict[str, Requirement]:
    """Return what the wheel asks for, by its name: in any case, or for one of its extras alone."""
    everything = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    if extra:
        return {each.name: each for each in everything if str(each.marker) == f'extra == "{extra}"'}
    return {each.name: each for each in everything if "extra" not in str(each.marker)}


def test_the_wheel_asks_for_a_lightning_that_is_not_a_thiefs(metadata: Message) -> None:
    offered = ["2.3.3", "2.4.0", "2.6.2", "2.6.3", "2.6.6", "2.7.0", "2.8.0"]

    for extra in ("lightning", "pytorch-lightning", "conformance"):
        asked_for = requirements(metadata, extra=extra)
        for name in ("lightning", "pytorch-lightning"):
            assert list(asked_for[name].specifier.filter(offered)) == ["2.4.0", "2.6.6", "2.7.0"]


def test_extras_and_dependencies_name_no_vendor(metadata: Message) -> None:
    """A vendor's name that is not on the public index is free for anybody to take there."""
    asked_for = metadata.get_all("Requires-Dist", [])

    extras = {"lightning", "pytorch-lightning", "conformance", "deepspeed", "float8", "ray"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras
    assert {"pytest", "lightning", "pytorch-lightning"} <= requirements(metadata, extra="conformance").keys()
    assert not [line for line in asked_for if VENDORS_WORDS.search(line)]


def test_no_setup_installs_what_a_vendor_brings() -> None:
    files = [(ROOT / name).read_text() for name in ("Makefile", "constraints.txt", ".ci/run")]

    assert not [text for text in files if re.search(r"habana|torch.sdaa|--group[= ](?!dev|science)", text)]


def test_the_wheel_says_what_it_runs_on_and_under_which_licence(metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.10"


# --- The door for maintainers


def test_maintainers_files_name_what_exists() -> None:
    check = (ROOT / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]
    hooks = re.findall(r"entry: \.venv/bin(.*)", (ROOT / ".pre-commit-config.yaml").read_text())
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    forms = "".join(form.read_text() for form in (ROOT / ".github" / "ISSUE_TEMPLATE").iterdir())

    assert len(hooks) >= 3
    assert [command for command in hooks if f"\t$(RUN){command}\n" not in check] == []
    assert f"tier: [{', '.join(TIERS)}]" in workflow
    assert "-c constraints" not in workflow
    assert forms.count("Output of `northbridge doctor --json") == 2


# --- A fresh environment

TEN_LINES = """
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

inputs = torch.randn(64, 4)
model = Model()
before = model.layer.weight.detach().clone()
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer = Trainer(accelerator="cpu_sim", devices=1, max_epochs=2, **quiet)
trainer.fit(model, DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=8))
import northbridge
print("trained on", trainer.strategy.root_device, not torch.equal(before, model.layer.weight), northbridge.__file__)
"""


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel installed, and this one's packages but for Northbridge itself."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    call([sys.executable, "-m", "venv", "--without-pip", str(folder)], cwd=folder.parent)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin" / "python")]
    call([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], cwd=folder.parent)
    (packages,) = folder.glob("lib/python*/site-packages")
    # The .pth file that makes the checkout importable here is not read there: a folder named in a .pth is not a site.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def without_this_checkout() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}


def test_a_fresh_environment_lists_every_backend(environment: Path, tmp_path: Path) -> None:
    command = [str(environment / "bin" / "northbridge"), "list", "--no-probe", "--json"]

    listed = json.loads(call(command, tmp_path, without_this_checkout()))

    others = {plugin.name for plugin in northbridge.installed() if plugin.distribution != "northbridge"}
    assert {backend["name"] for backend in listed["backends"]} - others == {"cpu_sim", "hpu", "sdaa"}


def test_public_types_are_complete(environment: Path, tmp_path: Path) -> None:
    """The types that other packages lack do not count."""
    path = {"VIRTUAL_ENV": str(environment), "PATH": f"{environment}/bin:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "pyright", "--verifytypes", "northbridge", "--ignoreexternal"]

    assert "Type completeness score: 100%" in call(command, tmp_path, without_this_checkout() | path)


def test_fresh_environment_trains_ten_lines(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TEN_LINES)

    said = call([str(environment / "bin" / "python"), "train.py"], tmp_path, without_this_checkout())

    (packages,) = environment.glob("lib/python*/site-packages/northbridge/__init__.py")
    assert said.splitlines()[-1] == f"trained on cpu_sim:0 True {packages}"


@pytest.mark.timeout(1200)  # the suite has limits of its own, and says which test outlasted them
def test_documented_extra_earns_c2_on_one_device(wheel: Path, tmp_path: Path) -> None:
    """The extra ``conformance`` brings what the suite needs; torch, which a vendor chooses, is this environment's."""
    call([sys.executable, "-m", "venv", "--without-pip", "fresh"], tmp_path)
    (packages,) = (tmp_path / "fresh").glob("lib/python*/site-packages")
    for own in Path(sysconfig.get_path("purelib")).glob("*torch*"):
        if re.fullmatch(r"(func)?torch(gen)?|torch-.*\.dist-info", own.name):
            (packages / own.name).symlink_to(own)
    python = tmp_path / "fresh" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install", "--quiet"]
    versions = [f"{each.name}=={each.version}\n" for each in distributions() if each.name != "northbridge"]
    (tmp_path / "constraints.txt").write_text("".join(versions))
    call([*pip, "--no-compile", "-c", "constraints.txt", f"northbridge[conformance] @ {wheel.as_uri()}"], tmp_path)
    suite = [str(python.with_name("northbridge")), "conformance", "cpu_sim", "--level", "C2", "--out", "report"]
    environ = forking(without_this_checkout() | {"NORTHBRIDGE_CPU_SIM_DEVICES": "1"})

    said = subprocess.run(suite, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False).stdout

    tests = Report.read(tmp_path / "report" / "report.json").tests
    others = {test.evidence for test in tests if test.verdict not in (Verdict.PASS, Verdict.UNKNOWN)}
    assert others == {"neural-compressor-pt is not installed"}
    assert said.splitlines()[0].endswith(": C2 (simulated)")


# --- Who imports whom


def imports(file: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each module that ``file`` imports, and the names that it takes from it."""
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, tuple(alias.name for alias in node.names)


def python_files(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


def test_no_file_imports_the_folders_that_hold_the_packages() -> None:
    files = python_files(*(ROOT / name for name in ("core", "backends", "tests", "examples", "bench", "docs")))

    wrong = [file for file in files for module, _ in imports(file) if module.split(".")[0] in ("core", "backends")]

    assert len(files) > 100
    assert wrong == []


def public_names(file: Path) -> dict[str, list[str]]:
    """Return which names of which packages a file of a backend may use, beside those of its own package.

    A stand-in for a vendor's software comes with the simulated chip.
    """
    packages = [northbridge, northbridge_cpu_sim] if "simulated" in file.parts else [northbridge]
    return {package.__name__: package.__all__ for package in packages}


@pytest.mark.parametrize("name", BACKENDS)
def test_backend_imports_public_names_only(name: str) -> None:
    wrong = []
    for file in python_files(BACKENDS[name]):
        for module, names in imports(file):
            room, *inner = module.split(".")
            if room == name or not f"{room}_".startswith("northbridge_"):
                continue
            allowed = public_names(file).get(room)
            if inner or allowed is None or not set(names) <= set(allowed):
                wrong.append((file.name, module, names))

    assert wrong == []


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_asks_northbridge_for_public_names_alone(name: str) -> None:
    wrong = [
        (file.name, node.value.id, node.attr)
        for file in python_files(BACKENDS[name])
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in public_names(file)
        if node.attr not in public_names(file)[node.value.id]
    ]

    assert wrong == []


def test_the_core_imports_no_backend() -> None:
    files = python_files(CORE)

    assert [(file, name) for file in files for name, _ in imports(file) if name.startswith("northbridge_")] == []


@pytest.mark.parametrize("folder", [CORE, ROOT / "backends" / "cpu_sim"], ids=["core", "simulated chip"])
def test_what_serves_every_vendor_names_none(folder: Path) -> None:
    named = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".py", ".toml", ".md", ".cpp", ".h")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if VENDORS_WORDS.search(TORCHS_KEYS.sub("", line))
    ]

    assert named == []
