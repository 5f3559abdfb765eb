"""Children of Python, started from a working directory that is full of modules with the names of others'."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from tests.scripts import run_python

from northbridge.processes.environment import import_path, python_command

REPOSITORY = Path(__file__).parents[3]
STARTS = frozenset(
    {
        *("Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"),
        *("create_subprocess_exec", "create_subprocess_shell", "system", "popen", "posix_spawn", "posix_spawnp"),
        *("execv", "execve", "execvp", "execvpe", "execl", "execle", "execlp", "execlpe", "spawnv", "spawnl"),
        *("platform", "processor", "architecture", "find_library"),  # of a program, by its name
        *("Process", "Pool", "ProcessPoolExecutor", "get_context", "start_processes", "spawn"),
    }
)
"""The last words of functions that start a process."""

CANARY = """
import os
with open({log!r}, "a") as file:
    file.write(f"{{__name__}} in process {{os.getpid()}}\\n")
"""

DRIVER = """
# Every place that starts Python, each with the cheapest that it can start. What this process imports, it imports first:
# like an interpreter that is typed into, it looks into the working directory too, from then on.
import json, os, subprocess, sys, tempfile, torch
from pathlib import Path
import lightning.pytorch, ninja, pytest, rich.console
import northbridge, northbridge.processes.question, northbridge.discovery.simulated
from northbridge_conformance.tests.lightning import checkpoints
from northbridge.lightning.launchers import _noticing_lost_results
from northbridge_conformance.runs import processes, question as questions
import northbridge.processes.child, northbridge_cpu_sim.build.extension, northbridge_cpu_sim.build.compile
from northbridge_conformance.run import RunResult
from northbridge_cpu_sim.build.recipe import Recipe
from northbridge_cpu_sim.settings import SimSettings
import answers

work, program = Path(sys.argv[1]), sys.argv[0]

def listing_child():
    question = "from northbridge.processes.child import Reporter; Reporter().end(path=sys.path)"
    reply = northbridge.processes.child.ask(question, {})
    assert not reply.ending, reply
    return reply.facts["path"]

def inquiry():
    reply = northbridge.processes.question._ask_child("cpu_sim", answers.answer, "it", 60)
    assert "error" not in reply, reply
    return reply["missing"].split(os.pathsep)

def vendor_tool():
    assert northbridge.run_tool("canary-smi", backend="acme") is None  # it is in the working directory alone
    simulated = northbridge.discovery.simulated
    simulated._simulations["acme"] = northbridge.Simulation({}, tools={"acme-smi": Path(answers.__file__)})
    return northbridge.run_tool("acme-smi", backend="acme").strip().split(os.pathsep)

def run_folder(name):
    folder = work / name
    folder.mkdir()
    return folder

def start():
    folder = run_folder("start")
    with (folder / "said").open("wb") as said:
        assert processes.start(["-m", "json.tool", "--help"], os.environ, folder, said).wait(60) == 0

def question():
    facts = questions.ask_again("plugin:import_module", "answers").facts
    assert "answers" in facts["modules"]

def opened():
    folder = run_folder("opened")
    torch.save({"weights": torch.ones(2)}, folder / "epoch=1.ckpt")
    found = checkpoints._open_without_northbridge(RunResult(folder, {}, ""))
    assert found == {"devices": ["cpu"], "tensors": 1}

def compiled():
    chip = northbridge_cpu_sim.build.extension.locate(SimSettings(cache=work / "cache"), Recipe((work / "csrc",)))
    assert chip.is_file()

def context():  # in which Lightning starts the ranks: ours only asks for it
    with _noticing_lost_results("spawn"):
        pass

found = {}
sys.path.insert(0, "")
for place in (listing_child, inquiry, vendor_tool, start, question, opened, compiled, context):
    with open(os.environ["CANARY_LOG"], "w"):
        pass
    try:
        path = place() or []
        assert not {"", ".", os.getcwd()} & set(path), path
        error = ""
    except BaseException as failure:
        error = f"{type(failure).__name__}: {failure}"
    ran = Path(os.environ["CANARY_LOG"]).read_text()
    found[place.__name__] = {"error": error, "ran": ran}
print(json.dumps(found))
"""

ANSWERS = """
import json, os, sys
import decimal  # of the standard library, and not there before

def answer(name):
    return {"devices": 1, "missing": os.pathsep.join(sys.path)}

if __name__ == "__main__":
    print(os.pathsep.join(sys.path))
"""

EXTENSION = """
#include <Python.h>
#define JOIN(a, b) a##b
#define INIT(name) JOIN(PyInit_, name)
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "chip", nullptr, -1, nullptr};
PyMODINIT_FUNC INIT(TORCH_EXTENSION_NAME)() { return PyModule_Create(&definition); }
"""

CONFORMANCE = "conformance/northbridge_conformance"
PLACES = {
    "core/northbridge/processes/child.py: _started": "listing_child",
    "core/northbridge/processes/environment.py: python_command": "inquiry",
    "core/northbridge/processes/question.py: _ask_child": "inquiry",  # it names the Python in an error
    "core/northbridge/discovery/simulated.py: stand_in_for_tool": "vendor_tool",
    "core/northbridge/lightning/launchers.py: _noticing_lost_results": "context",
    f"{CONFORMANCE}/runs/processes.py: start_afresh": "start",
    f"{CONFORMANCE}/tests/lightning/checkpoints.py: _opener": "opened",
    "backends/cpu_sim/northbridge_cpu_sim/build/compile.py: _run": "compiled",
}
"""Every function that starts a process, or names the Python to start, and the part of the driver that has it do so."""


def places_in(file: Path) -> Iterator[str]:
    """The functions of ``file`` that start a process by a library's function, or read ``sys.executable``."""
    tree = ast.parse(file.read_text())
    libraries = {"subprocess", "asyncio", "os", "multiprocessing", "concurrent", "torch", "pty", "platform", "ctypes"}
    bare = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in libraries
        for name in node.names
        if name.name in STARTS
    }

    def starts(node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            dotted = ast.unparse(node.func).split(".")
            if dotted in (["asyncio", "run"], ["platform", "system"]):
                return False
            return dotted[-1] in STARTS and (dotted[0] in libraries or dotted[0] in bare)
        return isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.executable", "sys._base_executable")

    def walk(node: ast.AST, function: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from walk(child, child.name)
                continue
            if starts(child):
                yield f"{file.relative_to(REPOSITORY)}: {function}"
            yield from walk(child, function)

    yield from walk(tree, "")


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Return the outcome at every place, and the canaries that ran there."""
    root = tmp_path_factory.mktemp("places")
    here, work, scripts = (root / name for name in ("here", "work", "scripts"))
    for folder in (here, work / "csrc", scripts):
        folder.mkdir(parents=True)
    (work / "csrc" / "chip.cpp").write_text(EXTENSION)
    (scripts / "drive.py").write_text(DRIVER)
    (scripts / "answers.py").write_text(ANSWERS)
    log = root / "canaries.txt"
    for name in {*sys.stdlib_module_names, *packages_distributions()}:
        if name.isidentifier():
            (here / name).mkdir()
            (here / name / "__init__.py").write_text(CANARY.format(log=str(log)))
    for program in ("canary-smi", "ninja", "c++", "g++", "sh", "which", "uname"):
        target = here / program / "__init__.py" if (here / program).is_dir() else here / program
        target.write_text(f"#!/bin/sh\necho program {program} >> {log}\n" if target.name == program else "")
        target.chmod(0o755)
    environ = {**os.environ, "CANARY_LOG": str(log), "PATH": f"{os.pathsep}{os.environ['PATH']}{os.pathsep}"}
    run = run_python(str(scripts / "drive.py"), str(work), folder=here, environ=environ)
    assert run.returncode == 0, run.stderr
    found: dict[str, dict[str, str]] = json.loads(run.stdout.splitlines()[-1])
    return found


def test_every_place_that_starts_a_process_is_in_the_table() -> None:
    files = [
        *(file for folder in ("core", "conformance") for file in (REPOSITORY / folder).rglob("*.py")),
        *(REPOSITORY / "backends").glob("*/northbridge_*/**/*.py"),
    ]

    assert {place for file in files for place in places_in(file)} == set(PLACES)


@pytest.mark.parametrize("place", sorted(PLACES))
def test_no_child_imports_from_the_working_directory(place: str, driven: dict[str, dict[str, str]]) -> None:
    assert driven[PLACES[place]] == {"error": "", "ran": ""}


def test_a_child_imports_from_where_this_process_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also from a folder that was added, as a whole path: the child may stand elsewhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "added").mkdir()
    (tmp_path / "added" / "mine.py").write_text("import sys; print('found by', sys.argv[1:])")
    monkeypatch.syspath_prepend("added")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    command = python_command("import mine", "one", "two")
    run = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, check=False)

    assert (run.stdout, run.stderr) == ("found by ['one', 'two']\n", "")


def test_the_working_directory_of_the_moment_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", "/of/a/script", ""])

    assert import_path() == ["/of/a/script"]
