from __future__ import annotations

import importlib
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from tests.core.lightning.conftest import Build

from northbridge.discovery import declared
from northbridge.errors import ArgumentsError, UnsupportedError
from northbridge.lightning import launchers
from northbridge.lightning.accelerators import accelerator
from northbridge.lightning.accelerators.accelerator import hold
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace

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


@pytest.mark.parametrize(("end", "code"), [(SystemExit(), 1), (SystemExit(0), 1), (SystemExit(3), 3)])
def test_a_rank_that_leaves_early_is_not_a_success(work: Work, end: SystemExit, code: int) -> None:
    with pytest.raises(SystemExit) as left:
        work(end)

    assert left.value.code == code


def test_a_rank_that_is_interrupted_is_not_a_success_either(work: Work) -> None:
    with pytest.raises(SystemExit) as left:
        work(KeyboardInterrupt())

    assert left.value.code == 130


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


def test_an_error_of_the_users_goes_home_as_it_is(work: Work) -> None:
    with pytest.raises(ValueError, match="no such layer"):
        work(ValueError("no such layer"))


def test_fork_after_the_chip_was_used_is_refused(
    namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = build(accelerator="cpu_sim", devices=2, strategy="ddp_notebook").strategy.launcher
    hold(declared.load("cpu_sim"))
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("it was forked"))

    with pytest.raises(UnsupportedError, match=r"already used 'cpu_sim'.* restart the kernel") as refusal:
        launcher.launch(print)

    assert refusal.value.capability == "fork"


def test_ranks_are_spawned_beside_a_chip(namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = build(accelerator="cpu_sim", devices=2, strategy="ddp_spawn").strategy.launcher
    hold(declared.load("cpu_sim"))
    started: list[object] = []
    monkeypatch.setattr(type(launcher).stock_class, "launch", lambda *_: started.append("ranks"))

    launcher.launch(print)

    assert started == ["ranks"]


def announcements(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().split(":")[0] for record in caplog.records if record.name == "northbridge"]


def test_what_spawned_ranks_cannot_get_is_named(namespace: Namespace, build: Build) -> None:
    launcher = build(accelerator="cpu_sim", devices=2, strategy="ddp_spawn").strategy.launcher

    with pytest.raises(ArgumentsError) as caught:
        launcher.launch(lambda: None)

    assert str(caught.value).startswith("the ranks are spawned, and get what this process pickles, but Can't ")
    assert "<lambda>" in str(caught.value)
    assert "Fix: define it at the top of a module, leave it out, or run a script with" in str(caught.value)


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
    assert announcements(caplog) == ["cpu_sim is a simulated chip"]


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


def test_a_rank_with_an_error_of_its_own_waits_for_nobody(work: Work, sibling: subprocess.Popen[bytes]) -> None:
    with pytest.raises(ValueError, match="mine"):
        work(ValueError("mine"))

    assert sibling.poll() is None


def test_no_rank_waits_long(work: Work, sibling: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
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
    trainer = Trainer(
        accelerator="cpu_sim",
        max_steps=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        **arguments,
    )
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
