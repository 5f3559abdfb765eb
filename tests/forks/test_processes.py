"""A process of a run that is forked is what it is where it is started afresh."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.conftest import SHORT_PROCESS
from tests.forks import processes
from tests.forks.conftest import Begin
from tests.forks.processes import MOST_SERVERS
from tests.scripts import is_alive

BOTH = pytest.mark.parametrize("how", ["start", "fork"])

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
    begin: Begin, quick_torch: dict[str, str], tmp_path: Path, script: bool
) -> None:
    environ = {**quick_torch, "NORTHBRIDGE_OF_THE_RUN": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}
    del environ[SHORT_PROCESS]  # a user's looks for garbage as often as Python does

    for how in ("start", "fork"):
        assert begin(how, TELL, environ, "one", "{two}", script=script).wait() == 0, (
            tmp_path / f"{how}.txt"
        ).read_text()

    started, forked = (json.loads((tmp_path / f"{how}.txt").read_text()) for how in ("start", "fork"))
    assert forked == started
    assert forked["environment"]["NORTHBRIDGE_OF_THE_RUN"] == "1"


@BOTH
@pytest.mark.parametrize(
    ("end", "code", "last"),
    [
        ("", 0, "atexit"),
        ("sys.exit(3)", 3, "atexit"),
        ("sys.exit('no reason')", 1, "no reason\natexit"),
        ("threading.Thread(target=lambda: print('thread', time.sleep(0.3))).start()", 0, "thread None\natexit"),
        ("raise ValueError('no')", 1, "ValueError: no\natexit"),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
    ],
    ids=["none", "its own", "words", "a thread's end", "an error", "a signal"],
)
def test_its_exit_code(
    begin: Begin, quick_torch: dict[str, str], tmp_path: Path, how: str, end: str, code: int, last: str
) -> None:
    program = f"import atexit, os, signal, sys, threading, time\natexit.register(print, 'atexit')\n{end}\n"

    assert begin(how, program, quick_torch).wait() == code
    assert (tmp_path / f"{how}.txt").read_text().rstrip().endswith(last)


@BOTH
def test_one_that_outlasts_the_limit_ends_with_its_group(begin: Begin, quick_torch: dict[str, str], how: str) -> None:
    process = begin(how, "import time\ntime.sleep(100)\n", quick_torch)

    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.0)
    os.killpg(process.pid, signal.SIGKILL)

    assert process.wait() == -9
    assert process.wait(0.0) == -9


def test_two_forks_run_side_by_side(begin: Begin, quick_torch: dict[str, str], tmp_path: Path) -> None:
    meet = """
import os, sys, time
from pathlib import Path
mine, other = sys.argv[1:]
Path(mine).touch()
while not os.path.exists(other):
    time.sleep(0.01)
"""

    one, two = (begin("fork", meet, quick_torch, mine, other) for mine, other in ("ab", "ba"))

    assert (one.wait(), two.wait()) == (0, 0)


def test_variable_read_at_torchs_import_is_the_runs(
    begin: Begin, modules: Path, quick_torch: dict[str, str], tmp_path: Path
) -> None:
    (modules / "torch/__init__.py").write_text("import os\nread = os.environ.get('TORCH_OPTION')\n")

    for option in ("1", "2"):
        assert begin("fork", "import torch\nprint(torch.read)", {**quick_torch, "TORCH_OPTION": option}).wait() == 0
        assert (tmp_path / "fork.txt").read_text().strip() == option


def test_what_only_northbridge_reads_needs_no_other_import(
    begin: Begin, modules: Path, quick_torch: dict[str, str], tmp_path: Path
) -> None:
    (modules / "torch/__init__.py").write_text("import os\nwhere = os.getpid()\n")
    imported: set[str] = set()
    for option in ("1", "2"):
        environ = {**quick_torch, "NORTHBRIDGE_OPTION": option, "PYTEST_CURRENT_TEST": f"test {option}"}
        assert begin("fork", "import torch\nprint(torch.where)", environ).wait() == 0
        imported.add((tmp_path / "fork.txt").read_text())

    assert len(imported) == 1


def test_unread_variables_need_no_other_import(
    begin: Begin, modules: Path, quick_torch: dict[str, str], tmp_path: Path
) -> None:
    (modules / "torch/__init__.py").write_text("import os\nwhere = os.getpid()\n")
    tell = "import os, torch\nprint(torch.where, os.environ['RANK'])"
    said = []
    for rank in ("0", "1"):
        assert begin("fork", tell, {**quick_torch, "RANK": "?"}, late={"RANK": rank}).wait() == 0
        said.append((tmp_path / "fork.txt").read_text().split())

    assert said[0][0] == said[1][0]
    assert [rank for _, rank in said] == ["0", "1"]


@pytest.mark.parametrize("asks_on", [True, False])
def test_forks_of_a_fork_come_from_its_server(
    begin: Begin, modules: Path, quick_torch: dict[str, str], tmp_path: Path, asks_on: bool
) -> None:
    (modules / "torch/__init__.py").write_text("import os\nwhere = os.getpid()\n")
    (modules / "inner.py").write_text("import os, torch\nprint(torch.where, os.environ['NORTHBRIDGE_OF_THE_RUN'])\n")
    ask = """
import os, torch
from pathlib import Path
from tests.forks import processes
with open("inner.txt", "wb") as output:
    for run in ("1", "2"):
        environ = {**os.environ, "NORTHBRIDGE_OF_THE_RUN": run}
        assert processes.fork(["-m", "inner"], environ, Path.cwd(), output).wait() == 0
print(torch.where)
"""

    assert begin("fork", ask, quick_torch, asks_on=asks_on).wait() == 0, (tmp_path / "fork.txt").read_text()

    outer = (tmp_path / "fork.txt").read_text().strip()
    said = [line.split() for line in (tmp_path / "folder/inner.txt").read_text().splitlines()]
    assert [run for _, run in said] == ["1", "2"]
    assert {where == outer for where, _ in said} == {asks_on}


def test_fork_without_its_server_starts_afresh(
    begin: Begin, modules: Path, quick_torch: dict[str, str], tmp_path: Path
) -> None:
    ask = """
import os, time, warnings
from pathlib import Path
from tests.forks import processes
Path("go").touch()
while not os.path.exists("gone"):
    time.sleep(0.01)
with open("inner.txt", "wb") as output, warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    assert processes.fork(["-m", "inner"], os.environ, Path.cwd(), output).wait() == 0
print(*(warning.message for warning in warned))
"""
    (modules / "inner.py").write_text("print('here')\n")

    process = begin("fork", ask, quick_torch, asks_on=True)
    while not (tmp_path / "folder/go").exists():  # pytest has a limit
        time.sleep(0.01)
    server = processes._servers[processes._key(quick_torch, ())]
    assert isinstance(server, processes._OwnServer)
    os.kill(server._process.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="its parent was killed"):
        process.wait()
    (tmp_path / "folder/gone").touch()

    while is_alive(process.pid):
        time.sleep(0.01)
    assert (tmp_path / "folder/inner.txt").read_text().strip() == "here"
    assert "is started afresh: that process ended" in (tmp_path / "fork.txt").read_text()


def test_no_more_than_so_many_processes_wait_to_be_forked(
    begin: Begin, quick_torch: dict[str, str], tmp_path: Path
) -> None:
    go = tmp_path / "go"
    wait = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]):\n    time.sleep(0.01)\n"
    meanwhile = begin("fork", wait, {**quick_torch, "OPTION": "0"}, str(go))
    for option in range(1, MOST_SERVERS + 2):
        assert begin("fork", "", {**quick_torch, "OPTION": str(option)}).wait() == 0

    assert len(processes._servers) == MOST_SERVERS
    go.touch()
    assert meanwhile.wait() == 0  # though what it was forked from has ended


def test_what_no_import_reads_is_read_in_the_fork(begin: Begin, quick_torch: dict[str, str], tmp_path: Path) -> None:
    before = len(processes._servers)
    for variable in ("PYTEST_VERSION", "FAIRCHIP_QUEUES", "HABANA_VISIBLE_MODULES", "PT_HPU_LAZY_MODE"):
        tell = f"import os\nprint(os.environ[{variable!r}])\n"
        assert begin("fork", tell, {**quick_torch, variable: "of the run"}).wait() == 0
        assert (tmp_path / "fork.txt").read_text() == "of the run\n"

    assert len(processes._servers) - before <= 1


def test_the_last_that_was_asked_is_kept(begin: Begin, quick_torch: dict[str, str]) -> None:
    for option in ("kept", *map(str, range(1, MOST_SERVERS)), "kept", "another"):
        assert begin("fork", "", {**quick_torch, "OPTION": option}).wait() == 0

    assert processes._key({**quick_torch, "OPTION": "kept"}, ()) in processes._servers
    assert processes._key({**quick_torch, "OPTION": "1"}, ()) not in processes._servers


def test_servers_share_what_they_have_imported_first(
    begin: Begin, modules: Path, quick_torch: dict[str, str], tmp_path: Path
) -> None:
    (modules / "torch/__init__.py").write_text("import os\nwhere = os.getpid()\n")
    for module in ("anvil", "hammer"):
        (modules / f"{module}.py").write_text("import os\nwhere = os.getpid()\n")
    tell = "import os, sys, torch\n"
    tell += "print(torch.where, *(getattr(sys.modules.get(each), 'where', each) for each in ('anvil', 'hammer')))\n"
    tell += "os.write(2, b'an error\\n')\nassert os.read(0, 1) == b''\n"
    said = []
    for imported in ((), ("anvil",), ("anvil", "hammer"), ("anvil",)):
        assert begin("fork", tell, quick_torch, imported=imported).wait() == 0
        *lines, error = (tmp_path / "fork.txt").read_text().splitlines()
        assert error == "an error"
        said.append(lines[0].split())

    torch, anvil = said[1][:2]
    assert said == [[torch, "anvil", "hammer"], [torch, anvil, "hammer"], [torch, anvil, said[2][2]], said[1]]
    assert len({torch, anvil, said[2][2]}) == 3


def test_run_without_torch_starts_afresh(
    begin: Begin, modules: Path, quick_torch: dict[str, str], tmp_path: Path
) -> None:
    (modules / "torch/__init__.py").write_text("raise ImportError('libtorch.so: no such file')\n")

    for _ in range(2):  # the second finds that the first has failed
        with pytest.warns(RuntimeWarning, match=r"(?s)program was to run in the fork .* exit code 1: .*no such file"):
            process = begin("fork", "import torch", quick_torch)
        assert process.wait() == 1
        assert "ImportError: libtorch.so: no such file" in (tmp_path / "fork.txt").read_text()


def test_a_fork_whose_parent_was_killed_is_an_error(begin: Begin, quick_torch: dict[str, str]) -> None:
    kill_parent = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n"
    process = begin("fork", kill_parent, quick_torch)

    with pytest.raises(RuntimeError, match=f"it is not known how process {process.pid}, program, ended"):
        process.wait()


def test_what_forks_ends_where_pytest_is_killed(quick_torch: dict[str, str], tmp_path: Path) -> None:
    program = """
import os, signal, sys
from pathlib import Path
from tests.forks import processes
folder = Path(sys.argv[1])
(folder / "program.py").touch()
with open(os.devnull, "wb") as output:
    processes.fork(["-m", "program"], os.environ, folder, output).wait()
(server,) = processes._servers.values()
print(server._process.pid, server._folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], env=quick_torch, stdout=subprocess.PIPE, text=True
    )
    pid, folder = killed.stdout.split()

    assert killed.returncode == -9
    while is_alive(int(pid)):  # pytest has a limit
        time.sleep(0.01)
    shutil.rmtree(folder)


def test_server_outlives_pytest_for_a_fork(quick_torch: dict[str, str], tmp_path: Path) -> None:
    asking = """
import os, time
from pathlib import Path
from tests.forks import processes
while not os.path.exists("go"):
    time.sleep(0.01)
with open("inner.txt", "wb") as output:
    assert processes.fork(["-m", "inner"], os.environ, Path.cwd(), output).wait() == 0
"""
    program = """
import os, signal, sys
from pathlib import Path
from tests.forks import processes
with open(os.devnull, "wb") as output:
    processes.fork(["-m", "asking"], os.environ, Path(sys.argv[1]), output, asks_on=True)
(server,) = processes._servers.values()
print(server._process.pid, server._folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    (tmp_path / "asking.py").write_text(asking)
    (tmp_path / "inner.py").write_text("import os\nprint(os.getppid())\n")
    killed = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], env=quick_torch, stdout=subprocess.PIPE, text=True
    )
    pid, folder = killed.stdout.split()

    assert is_alive(int(pid))
    (tmp_path / "go").touch()
    while is_alive(int(pid)):  # pytest has a limit
        time.sleep(0.01)
    assert (tmp_path / "inner.txt").read_text().strip() == pid  # it came from there
    shutil.rmtree(folder)
