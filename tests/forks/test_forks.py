"""A process of a run that is forked, or a rank that it starts, is what it is where it is started afresh."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.conftest import SHORT_PROCESS
from tests.forks import processes
from tests.forks.processes import PLACE, fork
from tests.forks.server import PRELOADED
from tests.scripts import is_alive, run_python

from northbridge_conformance.runs.processes import Process, start_afresh

Begin = Callable[..., Process]
OURS = PRELOADED[-1].split(".")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def real_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The environment of a process whose servers are the test's own; it finds the modules of ``modules`` first."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "owner").write_text(str(os.getpid()))
    monkeypatch.setattr(processes, "place", lambda: place)
    before = os.environ.get("PYTHONPATH")  # an empty one would be the working folder, which differs
    path = [str(tmp_path / "modules"), str(ROOT), *([before] if before else [])]
    yield {**os.environ, "PYTHONPATH": os.pathsep.join(path), PLACE: str(place), "OMP_NUM_THREADS": "1"}
    for each in processes.servers():
        processes.end(each)


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A folder with empty modules in place of what a server imports; torch says in which process it was imported."""
    folder = tmp_path / "modules"
    for module in PRELOADED:
        file = folder / f"{module.replace('.', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    for package in ("/".join(OURS[:depth]) for depth in range(2, len(OURS))):
        (folder / package / "__init__.py").touch()
    (folder / "torch.py").unlink()
    (folder / "torch/__init__.py").write_text("import os\nwhere, option = os.getpid(), os.environ.get('OPTION')\n")
    (folder / OURS[0] / "__init__.py").write_text(
        "import pkgutil\n__path__ = pkgutil.extend_path(__path__, __name__)\n"  # its other modules are the real ones
    )
    return folder


@pytest.fixture
def quick_torch(modules: Path, real_torch: dict[str, str]) -> dict[str, str]:
    """The environment of a process that finds what is in :func:`modules`."""
    return real_torch


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """Start or fork a process, by the function's name, that runs a program: the module ``program``, or a script."""

    def begin_program(
        how: str, program: str, environ: Mapping[str, str], *arguments: str, script: bool = False, **more: object
    ) -> Process:
        folder = tmp_path / "folder"
        (folder / "scripts").mkdir(parents=True, exist_ok=True)
        for file in ("program.py", "scripts/program.py"):
            (folder / file).write_text(program)
        command = [str(folder / "scripts/program.py")] if script else ["-m", "program"]
        start: Begin = start_afresh if how == "start" else fork
        with (tmp_path / "said.txt").open("wb") as output:
            started: Process = start([*command, *arguments], environ, folder, output, **more)
        return started

    return begin_program


@pytest.fixture
def said(begin: Begin, tmp_path: Path) -> Callable[..., str]:
    """Do what ``begin`` does, wait for its end, which has to be a good one, and return what it prints."""

    def run_program(how: str, program: str, environ: Mapping[str, str], *arguments: str, **more: object) -> str:
        code = begin(how, program, environ, *arguments, **more).wait()
        printed = (tmp_path / "said.txt").read_text()
        assert code == 0, printed
        return printed

    return run_program


# --- A fork

TELL = r"""
import gc, json, os, signal, subprocess, sys, threading, warnings

descriptors = len(os.listdir("/proc/self/fd"))
main = sys.modules["__main__"]
files = {number: os.path.realpath(f"/proc/self/fd/{number}") for number in (0, 1, 2)}
print(json.dumps({
    "main": [__name__, str(main.__spec__ and main.__spec__.name), main.__dict__ is globals(), __file__, sys.argv[0]],
    "arguments": [sys.argv, sys.orig_argv, sys.executable, str(sys.flags)],
    "path": sys.path,
    "folder": os.getcwd(),
    "environment": dict(sorted(os.environ.items())),
    "Linux's environment": sorted(filter(None, open("/proc/self/environ").read().split("\0"))),
    "C's environment": sorted(subprocess.run(["env", "-0"], capture_output=True, text=True).stdout.split("\0")),
    "session": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
    "signals": [str(signal.getsignal(each)) for each in sorted(signal.valid_signals())],
    "stdin": files[0],
    "stderr is stdout": files[1] == files[2],
    "buffers": [sys.stdout.line_buffering, sys.stderr.line_buffering, sys.stdout.encoding],
    "descriptors": descriptors,
    "threads": [threading.active_count(), threading.current_thread().name, len(os.listdir("/proc/self/task"))],
    "collections": [gc.isenabled(), gc.get_threshold()],
    "warnings": str(warnings.filters),
}))
"""


@pytest.mark.parametrize("script", [False, True], ids=["as a module", "as a script"])
def test_a_fork_finds_what_a_process_finds_that_was_started(
    said: Callable[..., str], quick_torch: dict[str, str], script: bool
) -> None:
    environ = {**quick_torch, "NORTHBRIDGE_OF_THE_RUN": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}
    del environ[SHORT_PROCESS]  # a user's looks for garbage as often as Python does

    started, forked = (json.loads(said(how, TELL, environ, "one", "{two}", script=script)) for how in ("start", "fork"))

    assert forked == started
    assert forked["environment"]["NORTHBRIDGE_OF_THE_RUN"] == "1"


@pytest.mark.parametrize(
    ("end", "code", "last"),
    [
        ("", 0, "atexit"),
        ("sys.exit(3)", 3, "atexit"),
        ("sys.exit('no reason')", 1, "no reason\natexit"),
        ("threading.Thread(target=lambda: print('thread', time.sleep(0.3))).start()", 0, "thread None\natexit"),
        ("raise ValueError('no')", 1, "ValueError: no\natexit"),
    ],
    ids=["none", "its own", "words", "a thread's end", "an error"],
)
def test_its_exit_code(
    begin: Begin, quick_torch: dict[str, str], tmp_path: Path, end: str, code: int, last: str
) -> None:
    program = f"import atexit, sys, threading, time\natexit.register(print, 'atexit')\n{end}\n"

    assert begin("fork", program, quick_torch).wait() == code
    assert (tmp_path / "said.txt").read_text().rstrip().endswith(last)


def test_two_run_side_by_side_and_end_with_their_groups(begin: Begin, quick_torch: dict[str, str]) -> None:
    meet = """
import os, sys, time
mine, other = sys.argv[1:]
open(mine, "w")
while not os.path.exists(other):
    time.sleep(0.01)
time.sleep(100 * (mine == "b"))
"""
    one, two = (begin("fork", meet, quick_torch, mine, other) for mine, other in ("ab", "ba"))

    assert one.wait() == 0
    with pytest.raises(subprocess.TimeoutExpired):
        two.wait(0.0)
    os.killpg(two.pid, signal.SIGKILL)
    assert (two.wait(), two.wait(0.0)) == (-9, -9)


# --- Which process it is forked from

WHERE = "import os, torch\nprint(torch.where, torch.option, os.environ.get('RANK'))\n"


def test_a_variable_read_at_torchs_import_is_the_runs(said: Callable[..., str], quick_torch: dict[str, str]) -> None:
    assert [said("fork", WHERE, {**quick_torch, "OPTION": each}).split()[1] for each in "12"] == ["1", "2"]


# --- Where there is none


@pytest.mark.parametrize(
    ("module", "code", "warned"),
    [
        ("torch/__init__", "raise ImportError('libtorch.so: no such file')", r"that process ended: .*no such file"),
        (
            "torchmetrics",
            "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()",
            r"torchmetrics, .* left 2 threads, of which a fork has one; set OMP_NUM_",
        ),
    ],
    ids=["no torch", "a thread"],
)
def test_a_run_starts_afresh_where_no_fork_can_be(
    said: Callable[..., str], modules: Path, quick_torch: dict[str, str], module: str, code: str, warned: str
) -> None:
    (modules / f"{module}.py").write_text(code)

    for _ in range(2):  # the second finds that the first has failed
        with pytest.warns(RuntimeWarning, match=rf"(?s)program was to run in the fork .*{warned}"):
            assert said("fork", "print('done')", quick_torch) == "done\n"


def test_a_fork_whose_parent_was_killed_is_an_error(begin: Begin, quick_torch: dict[str, str]) -> None:
    process = begin("fork", "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n", quick_torch)

    with pytest.raises(RuntimeError, match=f"it is not known how process {process.pid}, program, ended"):
        process.wait()


def test_what_forks_ends_with_the_process_that_is_its_owner(quick_torch: dict[str, str], tmp_path: Path) -> None:
    program = """
import os, signal, sys
from pathlib import Path
from tests.forks import processes
with open("said", "wb") as output:
    processes.fork(["-m", "program"], os.environ, Path.cwd(), output, imported=("anvil",)).wait()
print(processes.place())
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""
    (tmp_path / "program.py").write_text("import os\nprint(os.getppid(), os.getpid())")
    del quick_torch[PLACE]

    killed = run_python("-c", program, folder=tmp_path, environ=quick_torch)

    assert killed.returncode == -9, killed.stderr
    server, _ = map(int, (tmp_path / "said").read_text().split())
    wait_for(lambda: not is_alive(server))
    shutil.rmtree(killed.stdout.strip())


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


# --- What is imported before it


@pytest.fixture
def vendor(tmp_path: Path, real_torch: dict[str, str]) -> dict[str, str]:
    """The environment of a process in which torch imports a vendor's software, which prints who does."""
    about = tmp_path / "modules/acme_torch-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-torch\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[torch.backends]\nacme = acme_torch:load\n")
    (tmp_path / "modules/acme_torch.py").write_text("import os\ndef load(): print('acme is in', os.getpid())\n")
    return real_torch


def test_a_vendors_software_is_imported_after_the_fork_if_at_all(
    said: Callable[..., str], vendor: dict[str, str]
) -> None:
    tell = "import acme_torch, os, sys\nprint(os.getpid(), *sys.modules)\n"
    silent = {**vendor, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    imports = "import northbridge.lightning.corrections.table, northbridge_conformance, lightning.pytorch"

    loaded, told = said("fork", tell, vendor).splitlines()
    (before,), (after,) = (
        said(*each, silent).splitlines() for each in (("fork", tell), ("start", f"{imports}\n{tell}"))
    )

    assert loaded == f"acme is in {told.split()[0]}"
    _, *forked = before.split()
    assert {"torch._dynamo", "torchmetrics", "northbridge.lightning.connector.registry"} <= {*forked}
    ours = {"tests", "tests.forks", *(f"tests.forks.{module}" for module in ("program", "ranks", "server"))}
    assert {*forked} - {*after.split()} == ours


def test_lightning_is_imported_before_the_fork(said: Callable[..., str], real_torch: dict[str, str]) -> None:
    """It has the accelerators of the installed backends, and as read at an import another rank of each process."""
    tell = """
import sys
before = "lightning.pytorch.trainer.connectors.accelerator_connector" in sys.modules
from lightning.fabric.accelerators import ACCELERATOR_REGISTRY as fabrics
from lightning.pytorch.accelerators import AcceleratorRegistry as trainers
from lightning.fabric.utilities.rank_zero import rank_zero_only
print(before, "cpu_sim" in fabrics, "cpu_sim" in trainers, rank_zero_only.rank)
"""
    for variable, rank in (("ANVIL", 0), ("RANK", 3), ("LOCAL_RANK", 3), ("SLURM_PROCID", 3)):
        found = said("fork", tell, real_torch, late={variable: "3"}, imported=("lightning",))
        assert found == f"True True True {rank}\n"


# --- The ranks of a script, which are started as Lightning's launcher starts them

RANKS = """
import json, os, signal, subprocess, sys
import torch

def start(**variables):
    command = [sys.executable, os.path.abspath(sys.argv[0])] + sys.argv[1:]
    return subprocess.Popen(command, env={**os.environ, "LOCAL_RANK": "1", **variables}, cwd=None)
"""
TOLD = """
if "LOCAL_RANK" in os.environ:
    first = int(os.environ["FIRST"])
    told = {"path": sys.path, "arguments": [sys.argv, sys.orig_argv], "folder": os.getcwd(), "name": __name__}
    told |= {"files": [os.path.realpath(f"/proc/self/fd/{number}") for number in (0, 1, 2)]}
    told |= {"session": os.getsid(0) == first, "group": os.getpgid(0) == first, "parent": os.getppid() == first}
    told |= {"signals": [str(signal.getsignal(each)) for each in sorted(signal.valid_signals())]}
    told |= {"variable": os.environ.get("OF_THE_RANK"), "descriptors": len(os.listdir("/proc/self/fd"))}
    os.write(1, (json.dumps(told) + "\\n").encode())
    sys.exit(5)
os.chdir("scripts")
os.environ["FIRST"] = str(os.getpid())
rank = start(OF_THE_RANK="yes")
print(rank.wait(), isinstance(rank, subprocess.Popen), flush=True)
"""
WHO_IMPORTED = """
print(torch.where, flush=True)
if "LOCAL_RANK" not in os.environ:
    os.environ.update(json.loads(sys.argv[1]))
    start().wait()
    subprocess.run([sys.executable, "-c", "import torch; print(torch.where)"])
"""


def test_a_rank_finds_what_one_finds_that_was_started_afresh(
    said: Callable[..., str], quick_torch: dict[str, str]
) -> None:
    (afresh, ended), (forked, has_ended) = (
        said("fork", RANKS + TOLD, quick_torch, "a", "b", script=True, starts_ranks=ranks).splitlines()
        for ranks in (False, True)
    )

    assert json.loads(forked) == json.loads(afresh)
    assert json.loads(forked)["variable"] == "yes"
    assert (ended, has_ended) == ("5 True", "5 True")


@pytest.mark.parametrize(
    ("changed", "forked"),
    [({}, True), ({"NEW": "1"}, True), ({"OPTION": "2"}, False)],
    ids=["none", "a new one", "one that torch may have read"],
)
def test_a_rank_is_a_fork_unless_a_variable_was_changed(
    said: Callable[..., str], quick_torch: dict[str, str], changed: dict[str, str], forked: bool
) -> None:
    environ = {**quick_torch, "OPTION": "1"}

    printed = said("fork", RANKS + WHO_IMPORTED, environ, json.dumps(changed), script=True, starts_ranks=True)

    first, rank, other = printed.split()
    assert (rank == first) is forked
    assert other != first  # a process that is not a rank is started afresh
