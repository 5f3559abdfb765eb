from __future__ import annotations

import importlib
import json
import logging
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from tests.core.lightning.conftest import Build, refusal
from tests.scripts import run_python
from torch.multiprocessing.spawn import ProcessContext, ProcessExitedException

from northbridge.discovery import declared
from northbridge.errors import ArgumentsError, CollectiveError, UnsupportedError
from northbridge.lightning import launchers
from northbridge.lightning.accelerators import accelerator
from northbridge.lightning.accelerators.accelerator import hold
from northbridge.lightning.classes import classes
from northbridge.lightning.launchers import name_dead_ranks, name_killed_ranks
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.strategies import parallel

Work = Callable[[BaseException], None]


@pytest.fixture
def work(namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch) -> Work:
    """Do in this process what a spawned rank does when its work raises."""
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # else the launcher changes torch's threads
    launcher = build(accelerator="cpu_sim", devices=1, strategy="ddp_spawn").strategy.launcher
    no_trainer = (None,) if namespace.is_trainer else ()

    def working(end: BaseException) -> None:
        def train() -> None:
            raise end

        launcher._wrapping_function(0, *no_trainer, train, (), {}, None)

    return working


@pytest.mark.parametrize("strategy", ["ddp_spawn", "ddp_fork", "ddp_notebook"])
def test_spawned_and_forked_ranks_have_our_launcher(namespace: Namespace, build: Build, strategy: str) -> None:
    launcher = build(accelerator="cpu_sim", devices=2, strategy=strategy).strategy.launcher

    assert type(launcher) is classes(namespace).launcher
    assert launcher.is_interactive_compatible is (strategy != "ddp_spawn")


def test_scripts_have_lightnings_launcher_with_words(namespace: Namespace, build: Build) -> None:
    launcher = build(accelerator="cpu_sim", devices=2, strategy="ddp").strategy.launcher

    stock = namespace.module("strategies.launchers.subprocess_script")._SubprocessScriptLauncher
    assert type(launcher).stock_class is stock
    assert (
        type(pickle.loads(pickle.dumps(launcher))) is importlib.import_module(namespace.home).SubprocessScriptLauncher
    )


def test_neither_a_search_nor_a_strategy_leaves_variables(build: Build, nothing_known: None) -> None:
    before = dict(os.environ)

    build(devices=1)
    build(accelerator="cpu_sim", devices=2, strategy="ddp")

    assert dict(os.environ) == before


def test_a_rank_is_watched_while_it_works(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with its parent, also where SIGINT is ignored."""
    seen: list[str] = []

    @contextmanager
    def watch() -> Iterator[None]:
        seen.append("begins")
        yield
        seen.append("ends")

    monkeypatch.setattr(launchers, "end_with_parent", watch)
    with pytest.raises(ValueError, match="mine"):
        work(ValueError("mine"))

    assert seen == ["begins"]  # and its end was inside


@pytest.mark.parametrize(
    ("end", "code"), [(SystemExit(), 1), (SystemExit(0), 1), (SystemExit(3), 3), (KeyboardInterrupt(), 130)]
)
def test_a_rank_that_leaves_early_is_not_a_success(work: Work, end: BaseException, code: int) -> None:
    with pytest.raises(SystemExit) as left:
        work(end)

    assert left.value.code == code


def test_lost_results_are_not_waited_for() -> None:
    """A rank that calls ``os._exit(0)`` sends none, and torch counts it as success."""
    context: Any = get_context("fork")
    with launchers._noticing_lost_results("fork"), ThreadPoolExecutor(1) as another_thread:
        others = another_thread.submit(context.SimpleQueue).result()
        results, users = context.SimpleQueue(), context.SimpleQueue()

    with pytest.raises(RuntimeError, match=r"the first rank ended with exit code 0, .* Fix: let it return"):
        results.get()
    results.put(7)
    assert results.get() == 7
    assert {type(each) for each in (users, others, context.SimpleQueue())} == {SimpleQueue}


def test_fork_after_the_chip_was_used_is_refused(
    namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But ranks may be spawned."""
    forks, spawns = (
        build(accelerator="cpu_sim", devices=2, strategy=f"ddp_{how}").strategy.launcher
        for how in ("notebook", "spawn")
    )
    hold(declared.load("cpu_sim"))
    started: list[object] = []
    monkeypatch.setattr(type(spawns).stock_class, "launch", lambda *_: started.append("ranks"))

    said = refusal(UnsupportedError, forks.launch, print, capability="fork")
    assert "already used 'cpu_sim'" in said
    assert "restart the kernel" in said
    assert started == []
    spawns.launch(print)
    assert started == ["ranks"]


def announcements(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "northbridge"]


def test_what_spawned_ranks_cannot_get_is_named(namespace: Namespace, build: Build) -> None:
    launcher = build(accelerator="cpu_sim", devices=2, strategy="ddp_spawn").strategy.launcher

    said = refusal(ArgumentsError, launcher.launch, lambda: None)

    assert said.startswith("the ranks are spawned, and get what this process pickles, but Can't ")
    assert "<lambda>" in said
    assert "Fix: define it at the top of a module, leave it out, or run a script with" in said


def test_simulated_chip_is_announced_once_before_the_ranks(
    build: Build, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each launch makes other ranks; all are of one job."""
    accelerator.announced.clear()
    strategy = build(accelerator="cpu_sim", devices=2, strategy="ddp_spawn").strategy
    ranks: list[bytes] = []
    monkeypatch.setattr(type(strategy.launcher).stock_class, "launch", lambda *_: ranks.append(pickle.dumps(strategy)))

    with caplog.at_level(logging.WARNING, "northbridge"):
        strategy.launcher.launch(print)
        strategy.launcher.launch(print)
        accelerator.announced.clear()  # as in a process of its own
        pickle.loads(ranks[1]).announce()

    assert len(ranks) == 2
    assert announcements(caplog) == [
        (
            "cpu_sim is a simulated chip: it uses the host's memory and CPU. Numbers are the CPU's; its speed says"
            " nothing about a real chip."
        )
    ]


def test_lone_rank_of_a_job_announces_nothing(
    namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    accelerator.announced.clear()
    strategy = build(accelerator="cpu_sim", devices=1).strategy
    monkeypatch.setattr(namespace.fabric_module("utilities.rank_zero").rank_zero_only, "rank", 1)

    with caplog.at_level(logging.WARNING, "northbridge"):
        strategy.announce()

    assert strategy.is_global_zero
    assert announcements(caplog) == []


@pytest.fixture
def sibling(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A rank beside this one, which has failed and takes its time to end."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5)"]) as process:
        monkeypatch.setattr(launchers, "_siblings", lambda: [process.pid])
        yield process
        process.kill()


def test_a_rank_that_lost_another_lets_that_one_end_first(work: Work, sibling: subprocess.Popen[bytes]) -> None:
    """torch tells the error of the rank that ends first, which has to be the cause."""
    with pytest.raises(RuntimeError, match="lost"):
        work(RuntimeError("rank 1 was lost"))

    assert sibling.poll() == 0


def test_a_rank_with_its_own_error_waits_for_nobody(
    work: Work, sibling: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="mine"):
        work(ValueError("mine"))
    monkeypatch.setattr(launchers, "PATIENCE_SECONDS", 0.1)
    with pytest.raises(RuntimeError, match="lost"):
        work(RuntimeError("rank 1 was lost"))

    assert sibling.poll() is None


# --- A notebook, executed as Jupyter executes it


CELLS = [
    """
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

def train(**arguments):
    off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar"), False)
    trainer = Trainer(accelerator="cpu_sim", max_steps=2, **off, **arguments)
    trainer.fit(BoringModel())
    return trainer
""",
    *(
        f"trainer = train(devices=2, strategy={strategy!r})\n"
        "print(trainer.strategy.launcher._start_method, trainer.world_size)"
        for strategy in ("auto", "ddp_notebook")
    ),
    *["print(train(devices=1).strategy.root_device)"] * 2,
    "train(devices=2)",
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:(zmq|jupyter_client|nbclient|nbformat).*")
def test_several_devices_fork_until_one_trains_here(tmp_path: Path) -> None:
    """In a notebook. A fork after the chip was used is refused; one device trains again and again."""
    made: Any = nbformat.v4
    notebook = made.new_notebook(cells=[made.new_code_cell(source) for source in CELLS])
    resources = {"metadata": {"path": str(tmp_path)}}

    with pytest.raises(CellExecutionError) as failure:
        NotebookClient(notebook, timeout=150, kernel_name="python3", resources=resources).execute()

    printed = [[each.text for each in cell.outputs if each.get("name") == "stdout"] for cell in notebook.cells[1:]]
    assert [said[-1].splitlines()[-1] for said in printed if said] == ["fork 2", "fork 2", "cpu_sim:0", "cpu_sim:0"]
    assert "UnsupportedError" in failure.value.traceback
    assert "has already used 'cpu_sim'" in failure.value.traceback
    assert "restart the kernel, or strategy='ddp'" in failure.value.traceback


# --- Names of the dead ranks in the error of the rank that lost them


Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    scripts: list[subprocess.Popen[bytes]] = []

    def starting(code: str) -> subprocess.Popen[bytes]:
        scripts.append(subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE))
        return scripts[-1]

    yield starting
    for script in scripts:
        script.kill()
        script.communicate()


def told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_dead_ranks_end_the_traceback(start: Start) -> None:
    alive, killed, raised = start("input()"), start("input()"), start("raise SystemExit(3)")
    error = RuntimeError("Connection closed by peer")
    killed.kill()
    raised.wait()

    name_dead_ranks(error, SimpleNamespace(procs=[alive, killed, raised]), rank=3)

    assert told(error) == (
        f"RuntimeError: Connection closed by peer\nrank 5 (process {killed.pid}) was killed by SIGKILL\n"
        f"rank 6 (process {raised.pid}) ended with exit code 3; its error is printed above\n"
    )


@pytest.mark.parametrize("kind", [RuntimeError, CollectiveError])
def test_rank_that_left_early_is_named(start: Start, kind: type[Exception]) -> None:
    """The user's code may exit in the middle of the training, without an error."""
    done, alive = start("pass"), start("input()")
    done.wait()
    error = kind("it did not answer")

    name_dead_ranks(error, SimpleNamespace(procs=[done, alive]), rank=0)

    named = f"rank 1 (process {done.pid}) ended with exit code 0, before this rank"
    assert told(error).endswith(f"Error: it did not answer\n{named}\n")


@pytest.mark.parametrize(
    "launcher", [None, SimpleNamespace(), SimpleNamespace(procs=[]), SimpleNamespace(procs=[multiprocessing.Process()])]
)
def test_without_scripts_nobody_is_named(launcher: object) -> None:
    error = RuntimeError("Connection closed by peer")

    name_dead_ranks(error, launcher, rank=0)

    assert told(error) == "RuntimeError: Connection closed by peer\n"


def test_an_error_that_no_lost_rank_can_cause_is_left_as_it_is(start: Start) -> None:
    killed = start("input()")
    killed.kill()
    killed.wait()
    error = KeyboardInterrupt()

    name_dead_ranks(error, SimpleNamespace(procs=[killed]), rank=0)

    assert told(error) == "KeyboardInterrupt\n"


def waited_for(*codes: int) -> BaseException:
    """Return the error of torch's wait for ended processes with these exit codes, of which it saw the second first."""
    pipes = [os.pipe() for _ in codes]
    os.close(pipes[1][1])
    processes = [
        SimpleNamespace(sentinel=pipe[0], pid=100 + each, exitcode=code, join=lambda *_: None, is_alive=lambda: False)
        for each, (code, pipe) in enumerate(zip(codes, pipes, strict=True))
    ]
    with pytest.raises(ProcessExitedException) as ended:
        ProcessContext(processes, ["/no/such/file"] * len(codes)).join()  # type: ignore[no-untyped-call]  # torch's
    for each in {end for pipe in pipes for end in pipe} - {pipes[1][1]}:
        os.close(each)
    return ended.value


def test_all_killed_ranks_are_named_by_the_parent() -> None:
    error = waited_for(-signal.SIGKILL, -signal.SIGKILL, 1, -signal.SIGSEGV, -signal.SIGTERM)

    name_killed_ranks(error, rank=8)

    assert told(error).splitlines()[-4:] == [
        "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
        "rank 8 (process 100) was killed by SIGKILL",
        "rank 9 (process 101) was killed by SIGKILL",
        "rank 11 (process 103) was killed by SIGSEGV",
    ]


def test_ranks_that_torch_killed_after_an_error_are_not_named() -> None:
    error = waited_for(-signal.SIGKILL, 1)

    name_killed_ranks(error, rank=0)

    assert "was killed" not in told(error)


TRAINED = """
import subprocess, sys
from types import SimpleNamespace
from northbridge.launch.process_group import note_failure
from northbridge.lightning import launchers

launchers.END_SECONDS = 0.5 if sys.argv[1] == "leaves" else 30.0
launchers.end_as_ranks_end()
procs = [subprocess.Popen([sys.executable, "-c", code]) for code in sys.argv[2:]]
launchers.note_scripts(SimpleNamespace(procs=procs), 0)
print([each.pid for each in procs])
if sys.argv[1] == "caught":
    note_failure()
if sys.argv[1] == "fails":
    raise SystemError("rank 0 failed")
"""


KILLED, WELL, HANGS = "import os; os.kill(os.getpid(), 9)", "pass", "import time; time.sleep(5)"


ENDS = {
    "killed": (["", WELL, KILLED], 1, ["rank 2 (process {1}) was killed by SIGKILL; this run ends with exit code 1"]),
    "exit code": (["", "exit(3)"], 3, ["rank 1 (process {0}) ended with exit code 3; this run ends with exit code 3"]),
    "well": (["", WELL, WELL], 0, []),
    "outlives": (["leaves", HANGS], 0, ["rank 1 (process {0}) still runs after 0.5 s, and is left alone"]),
    "caught": (["caught", KILLED], 0, []),
    "rank 0 fails": (["fails", KILLED], 1, ["SystemError: rank 0 failed"]),
}


@pytest.mark.parametrize(("arguments", "code", "named"), ENDS.values(), ids=ENDS)
def test_run_ends_as_its_ranks(tmp_path: Path, arguments: list[str], code: int, named: list[str]) -> None:
    """A rank may die after the last collective, when no other rank can notice."""
    ran = run_python("-c", TRAINED, *arguments, folder=tmp_path)

    assert ran.returncode == code
    assert ran.stdout.startswith("["), ran.stderr  # what was printed is written
    pids = json.loads(ran.stdout)
    said = ran.stderr.splitlines()
    assert said[-1:] == [each.format(*pids) for each in named]


def test_ranks_are_told_after_their_ends_are_known(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is registered last happens first, and the end for a failed rank may be at once."""
    called = Mock()
    for name in ("end_with_launcher", "end_as_ranks_end"):
        monkeypatch.setattr(parallel, name, getattr(called, name))

    build(accelerator="cpu_sim", devices=2, strategy="ddp")

    assert [each[0] for each in called.mock_calls] == ["end_with_launcher", "end_as_ranks_end"]
