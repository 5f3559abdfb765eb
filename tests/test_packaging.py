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
from collections.abc import Iterable, Iterator
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from tests.backends.one_namespace import leaving_to_cpu_sim
from tests.forks.suite import forking
from tests.scripts import run_command
from tests.tiers import TIERS

import northbridge
import northbridge_cpu_sim
from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Verdict

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core" / "northbridge"
SUITE = ROOT / "conformance" / "northbridge_conformance"
BACKENDS = {package.name: package for package in (ROOT / "backends").glob("*/northbridge_*")}
FOLDERS = {"northbridge": ROOT, SUITE.name: SUITE.parent, **{name: each.parent for name, each in BACKENDS.items()}}
"""Each distribution of this repository, by its package."""

PACKAGES = {"northbridge": CORE, SUITE.name: SUITE, **BACKENDS}

LIGHTNINGS = ("lightning", "pytorch-lightning")
TESTED_APART = ("northbridge_npu", "northbridge_xpu")
"""Those whose tests stand beside them."""

VENDORS_WORDS = re.compile(  # Neural Compressor and MPI serve every chip
    r"(?<![a-z])(hpus?|hccl|habana|gaudi|synapse|sdaa|tccl|teco|tecorigin|npus?|lccl|(?-i:Ascend|ASCEND)|xpu|xccl"
    r"|intel(?! (neural|mpi)))(?![a-z])",
    re.IGNORECASE,
)
TORCHS_KEYS = re.compile(r"\b[HX]PU\b")
"""Dispatch keys of torch's own, which a simulated chip may have."""


def call(command: list[str], cwd: Path, environ: dict[str, str] | None = None) -> str:
    done = run_command(*command, folder=cwd, environ=environ)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


# --- The wheels


def build(folder: Path, into: Path, target: str) -> Path:
    call([sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)], cwd=folder)
    (built,) = into.iterdir()
    return built


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each distribution, by its package."""
    return {name: build(folder, tmp_path_factory.mktemp("wheel"), "wheel") for name, folder in FOLDERS.items()}


def listing(wheel: Path) -> list[str]:
    with ZipFile(wheel) as archive:
        return archive.namelist()


def metadata(wheel: Path) -> Message:
    (name,) = [name for name in listing(wheel) if name.endswith("METADATA")]
    with ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(name).decode())


def test_version_comes_from_the_tag(tmp_path: Path) -> None:
    for folder in FOLDERS.values():
        place = tmp_path / folder.relative_to(ROOT)
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "pyproject.toml", place)
    commit = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "--message=a"]
    versions = []
    for command in (["true"], ["git", "init", "--quiet"], commit, ["git", "tag", "v0.3.0rc1"], commit):
        call(command, tmp_path)
        told = [sys.executable, "-m", "hatchling", "version"]
        versions.append({call(told, tmp_path / each.relative_to(ROOT)).strip() for each in FOLDERS.values()})

    assert versions == [{"0.1.0"}, {"0.1.0"}, {"0.1.0"}, {"0.3.0rc1"}, {"0.3.0rc1"}]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_has_every_source_and_no_product(wheels: dict[str, Path], name: str) -> None:
    package, wheel = PACKAGES[name], wheels[name]
    sources = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    info = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/"
    extras = {"northbridge": {*LIGHTNINGS, "deepspeed", "float8", "ray"}, **{each: {"test"} for each in TESTED_APART}}
    found = metadata(wheel)

    assert {each for each in listing(wheel) if not each.startswith(info)} == sources
    assert {Path(each).suffix for each in sources} <= {".py", ".cpp", ".h", ".typed", ".toml", ".html", ".css", ".js"}
    assert f"{name}/py.typed" in sources
    assert f"{info}licenses/LICENSE" in listing(wheel)
    assert (found["License-Expression"], found["Requires-Python"]) == ("Apache-2.0", ">=3.10")
    # A vendor's name that is not on the public index is free for anybody to take there.
    assert set(found.get_all("Provides-Extra", [])) == extras.get(name, set())
    assert not [line for line in found.get_all("Requires-Dist", []) if VENDORS_WORDS.search(line)]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_source_distribution_makes_the_same_wheel(wheels: dict[str, Path], name: str, tmp_path: Path) -> None:
    """It has the tests, where a distribution has any of its own, and its version without git."""
    into = [tmp_path / each for each in ("sdist", "wheel")]
    archive = build(FOLDERS[name], into[0], "sdist")
    shutil.unpack_archive(archive, tmp_path)
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")

    built = build(unpacked, into[1], "wheel")

    assert (built.name, sorted(listing(built))) == (wheels[name].name, sorted(listing(wheels[name])))
    assert (unpacked / "tests").is_dir() == ((FOLDERS[name] / "tests").is_dir() and name != "northbridge")


def read_entry_points(wheel: Path) -> ConfigParser:
    (file,) = [name for name in listing(wheel) if name.endswith("entry_points.txt")]
    found = ConfigParser()
    with ZipFile(wheel) as archive:
        found.read_string(archive.read(file).decode())
    return found


def test_wheels_announce_their_entry_points(wheels: dict[str, Path]) -> None:
    groups: dict[str, dict[str, str]] = {}
    for wheel in wheels.values():
        announced = read_entry_points(wheel)
        for group in announced.sections():
            groups.setdefault(group, {}).update(announced[group])

    # What forks for this repository's tests, or breaks a backend on purpose, is in tests/.
    assert not re.search(r"fork|mutat|hunt|wrong_backends", " ".join(listing(wheels[SUITE.name])))
    backends = {name.removeprefix("northbridge_"): name for name in BACKENDS}
    strategies = groups.pop("northbridge.strategies")
    named = {name for name in strategies if "fsdp" not in name and "deepspeed" not in name}
    assert named == {"hpu_ddp", "hpu_parallel", "hpu_single", "dpp_sdaa"}
    assert groups == {
        "console_scripts": {"northbridge": "northbridge.cli.app:main"},
        "northbridge.aliases": {
            "habana": "northbridge_hpu",
            "huawei-ascend": "northbridge_npu",
            "intel-arc": "northbridge_xpu",
            "intel-gaudi": "northbridge_hpu",
            "teco": "northbridge_sdaa",
        },
        "northbridge.backends": backends,
        "northbridge.commands": {"conformance": "northbridge_conformance.commands:app"},
        "northbridge.distributions": backends,  # an error names what to install
        "northbridge.float8_inference": {"hpu": "northbridge_hpu.neural_compressor:NeuralCompressor"},
        "northbridge.simulations": {name: f"{each}.simulated" for name, each in backends.items() if name != "cpu_sim"},
        "northbridge.succeeds": {"lightning_habana": "northbridge_hpu", "lightning_teco": "northbridge_sdaa"},
        "torch.backends": {"northbridge": "northbridge.autoload:arm"},
        "torch.distributed.backends": {"simccl": "northbridge_cpu_sim.collective:load"},
        "torch_dynamo_backends": {"hpu_backend": "northbridge_hpu.compiler:hpu_backend"},
    }


def test_core_repeats_the_aliases_of_the_backends(wheels: dict[str, Path]) -> None:
    group = "northbridge.aliases"
    read = {name: read_entry_points(wheel) for name, wheel in wheels.items()}
    aliases = {name: dict(found[group]) for name, found in read.items() if group in found}

    of_core = aliases.pop("northbridge")
    assert of_core == {word: module for each in aliases.values() for word, module in each.items()}


def requirements(wheel: Path, extra: str = "") -> dict[str, Requirement]:
    """Return what the wheel asks for, by its name: in any case, or for one of its extras alone."""
    everything = [Requirement(line) for line in metadata(wheel).get_all("Requires-Dist", [])]
    if extra:
        return {each.name: each for each in everything if str(each.marker) == f'extra == "{extra}"'}
    return {each.name: each for each in everything if "extra" not in str(each.marker)}


def test_the_core_needs_six_and_a_safe_lightning(wheels: dict[str, Path]) -> None:
    core = wheels["northbridge"]
    offered = ["2.3.3", "2.4.0", "2.6.2", "2.6.3", "2.6.6", "2.7.0", "2.8.0"]

    lacked_by_python_3_10 = {"tomli", "typing-extensions"}
    needed = {"torch", "pluggy", "pydantic", "typer", "rich", "packaging"}
    assert requirements(core).keys() - lacked_by_python_3_10 == needed
    for asked in (*(requirements(core, extra=extra) for extra in LIGHTNINGS), requirements(wheels[SUITE.name])):
        for name in LIGHTNINGS:
            assert list(asked[name].specifier.filter(offered)) == ["2.4.0", "2.6.6", "2.7.0"]


def test_no_setup_installs_what_a_vendor_brings() -> None:
    files = [(ROOT / name).read_text() for name in ("Makefile", "constraints.txt", ".ci/run")]

    assert not [text for text in files if re.search(r"habana|torch.sdaa|--group[= ](?!dev|science)", text)]


# --- The door for maintainers


def test_setup_tells_of_large_files_and_adds_an_index() -> None:
    said = call(["make", "--dry-run", "-W", "constraints.txt", "setup", "TORCH_INDEX=https://x.test/cpu"], ROOT)
    commands = [line for line in said.replace("\\\n", "").splitlines() if "/pip install" in line]

    assert len(commands) == 5
    assert [line for line in commands if "--extra-index-url https://x.test/cpu " not in line] == []
    shown = """
Downloading torch-2.13.0-cp311-cp311-linux_x86_64.whl.metadata (29 kB)
Downloading https://x.test/cpu/torch-2.13.0%2Bcpu-cp311-cp311-linux_x86_64.whl (184.3 MB)
  Using cached scipy-1.17.0-cp311-cp311-linux_x86_64.whl (35.0 MB)
  Downloading rich-14.0.0-py3-none-any.whl (1.2 MB)
Successfully installed rich-14.0.0
"""
    told = subprocess.check_output(["bash", "-c", commands[0].partition(" | ")[2]], input=shown, text=True)
    assert told.splitlines() == ["  torch-2.13.0+cpu, 184.3 MB", "  scipy-1.17.0, 35.0 MB"]


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


def install(folder: Path, wheels: Iterable[Path]) -> Path:
    """Return a virtual environment with the wheels, and this one's packages but for ours."""
    environment = folder / "venv"
    call([sys.executable, "-m", "venv", "--without-pip", str(environment)], cwd=folder)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(environment / "bin" / "python")]
    call([*pip, "install", "--quiet", "--no-deps", "--no-index", *map(str, wheels)], cwd=folder)
    (packages,) = environment.glob("lib/python*/site-packages")
    others = folder / "others"
    others.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "northbridge" not in each.name and each.suffix != ".pth":
            (others / each.name).symlink_to(each)
    (packages / "others.pth").write_text(f"{others}\n")
    return environment


@pytest.fixture(scope="module")
def environment(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with all of ours."""
    return install(tmp_path_factory.mktemp("fresh"), wheels.values())


@pytest.fixture(scope="module")
def bare(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the core alone."""
    return install(tmp_path_factory.mktemp("bare"), [wheels["northbridge"]])


def without_this_checkout() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}


def test_a_fresh_environment_lists_every_backend(environment: Path, tmp_path: Path) -> None:
    command = [str(environment / "bin" / "northbridge"), "list", "--no-probe", "--json"]

    listed = json.loads(call(command, tmp_path, without_this_checkout()))

    assert {f"northbridge_{backend['name']}" for backend in listed["backends"]} == BACKENDS.keys()


def test_public_types_are_complete(environment: Path, tmp_path: Path) -> None:
    """The types that other packages lack do not count."""
    path = {"VIRTUAL_ENV": str(environment), "PATH": f"{environment}/bin:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "pyright", "--verifytypes", "northbridge", "--ignoreexternal"]

    assert "Type completeness score: 100%" in call(command, tmp_path, without_this_checkout() | path)


TRAINER = "from lightning.pytorch import Trainer; Trainer(accelerator={!r}, devices=1)"
EACH_TRAINER = """
import sys
from lightning.pytorch import Trainer
for name in sys.argv[1:]:
    try:
        Trainer(accelerator=name, devices=1)
    except Exception as error:
        print(f"{name}: {' '.join(str(error).split())}")
"""
LEVELS = "from northbridge.conformance.levels import C0"
NO_QUANTIZER = (
    "float8 inference needs a quantizer, and no installed backend has one. Fix: install a backend that announces one in"
    " the entry-point group 'northbridge.float8_inference'"
)
NO_SUITE = "the conformance suite is not installed. Fix: in a clone of Northbridge, pip install . ./conformance"


def tell_error(environment: Path, *command: str, simulate: str | None = None) -> str:
    """Return the last paragraph that a command which has to fail writes to stderr, as one line."""
    environ = {**without_this_checkout(), **({"NORTHBRIDGE_SIMULATE": simulate} if simulate else {})}
    program, *arguments = command
    done = run_command(str(environment / "bin" / program), *arguments, folder=environment.parent, environ=environ)
    assert done.returncode != 0, done.stdout
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("northbridge", "conformance", "hpu", "--level", "C0"), f"northbridge: {NO_SUITE}"),
        (("northbridge", "compare", "a.json", "b.json"), f"northbridge: {NO_SUITE}"),
        (("python", "-c", LEVELS), f"ModuleNotFoundError: {NO_SUITE}"),
    ],
    ids=["conformance", "compare", "levels"],
)
def test_without_the_suite_an_error_has_its_install_line(bare: Path, command: tuple[str, ...], said: str) -> None:
    assert tell_error(bare, *command) == said


def test_a_backend_that_is_missing_is_one_error(bare: Path, tmp_path: Path) -> None:
    names = [each.removeprefix("northbridge_") for each in BACKENDS]

    said = call([str(bare / "bin" / "python"), "-c", EACH_TRAINER, *names], tmp_path, without_this_checkout())

    errors = dict(line.split(": ", 1) for line in said.splitlines() if line.split(": ")[0] in names)
    install_lines = {name: f"in a clone of Northbridge, pip install . ./backends/{name}" for name in names}
    assert [name for name in names if install_lines[name] not in errors.get(name, "")] == [], said


def test_a_simulated_card_needs_the_simulated_chip(wheels: dict[str, Path], tmp_path: Path) -> None:
    names = ("hpu", "xpu")
    environment = install(tmp_path, [wheels["northbridge"], *(wheels[f"northbridge_{name}"] for name in names)])

    for name in names:
        said = tell_error(environment, "python", "-c", TRAINER.format(name), simulate=name)

        assert f"simulation {name!r} (northbridge-{name} " in said
        assert (
            "needs 'northbridge_cpu_sim', which is not installed. Fix: in a clone of Northbridge, pip install ."
            " ./backends/cpu_sim"
        ) in said


@pytest.mark.timeout(1200)  # the suite has limits of its own, and says which test outlasted them
def test_installed_suite_earns_c2_on_one_device(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Its distribution brings what the suite needs; torch, which a vendor chooses, is this environment's.

    It trains in one package of Lightning; cpu_sim's proof from this checkout has both.
    """
    call([sys.executable, "-m", "venv", "--without-pip", "fresh"], tmp_path)
    (packages,) = (tmp_path / "fresh").glob("lib/python*/site-packages")
    for own in Path(sysconfig.get_path("purelib")).glob("*torch*"):
        if re.fullmatch(r"(func)?torch(gen)?|torch-.*\.dist-info", own.name):
            (packages / own.name).symlink_to(own)
    python = tmp_path / "fresh" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install", "--quiet"]
    chosen = [wheels[name] for name in ("northbridge", SUITE.name, "northbridge_cpu_sim")]
    versions = [f"{each.name}=={each.version}\n" for each in distributions() if not each.name.startswith("northbridge")]
    (tmp_path / "constraints.txt").write_text("".join(versions))
    call([*pip, "--no-compile", "-c", "constraints.txt", *map(str, chosen)], tmp_path)
    suite = [str(python.with_name("northbridge")), "conformance", "cpu_sim", "--level", "C2", "--out", "report"]
    environ = forking(without_this_checkout() | {"NORTHBRIDGE_CPU_SIM_DEVICES": "1"})
    environ = leaving_to_cpu_sim(environ, tmp_path / "left.txt")

    said = subprocess.run(suite, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False).stdout

    tests = Report.read(tmp_path / "report" / "report.json").tests
    others = {test.evidence for test in tests if test.verdict not in (Verdict.PASS, Verdict.UNKNOWN)}
    assert others == {NO_QUANTIZER}
    assert said.splitlines()[0] == "Northbridge simulated chip has level C2: Lightning trains on one device"


# --- Who imports whom


def uses(file: Path) -> Iterator[tuple[str, str]]:
    """Yield each module that ``file`` imports, with each name that it takes or reads from it; ``""`` is itself."""
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        match node:
            case ast.Import(names=found):
                yield from ((alias.name, "") for alias in found)
            case ast.ImportFrom(module=str(module), names=found, level=0):
                yield from ((module, alias.name) for alias in found)
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module.startswith("northbridge"):
                yield module, name


def test_no_file_imports_the_folders_that_hold_the_packages() -> None:
    folders = ("core", "conformance", "backends", "tests", "tools", "examples", "bench", "docs")
    files = [file for name in folders for file in (ROOT / name).rglob("*.py")]

    assert len(files) > 100
    assert [file for file in files for module, _ in uses(file) if module.split(".")[0] in ("core", "backends")] == []


@pytest.mark.parametrize("name", BACKENDS)
def test_backend_uses_public_names_only(name: str) -> None:
    """Beside those of its own package; a stand-in for a vendor's software comes with the simulated chip."""
    wrong = []
    for file in BACKENDS[name].rglob("*.py"):
        packages = [northbridge, northbridge_cpu_sim] if "simulated" in file.parts else [northbridge]
        public = {package.__name__: {"", *package.__all__} for package in packages}
        for module, used in uses(file):
            if module.split(".")[0] != name and module.startswith("northbridge") and used not in public.get(module, ()):
                wrong.append((file.name, module, used))

    assert wrong == []


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
