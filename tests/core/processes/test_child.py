"""Plugins that misbehave in the process that asks them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest
from tests.core.command import NO_CHIP, assert_children_end, backend, beside, flowing, northbridge, row
from tests.core.conftest import Install, Site

from northbridge.processes.child import Queue, Reply, Stage, Stopped, ask

_HANG_IN_LOAD = "Software.load = lambda self: threading.Event().wait()"


def test_one_that_hangs_while_it_counts_is_given_up(install: Install, without_lightning: Site) -> None:
    site = beside(without_lightning, *install("detect_hangs").folders)

    run = northbridge(site, "list", NORTHBRIDGE_DETECT_TIMEOUT="1")

    assert row(run.stdout, "detect_hangs")[3:] == ["timed out", "no", "-", "no"]
    assert (
        "backend 'detect_hangs' (northbridge-detect-hangs 1.2.3): detect() took longer than 1 s."
        " Fix: try when this machine is less busy, check the driver, raise NORTHBRIDGE_DETECT_TIMEOUT"
    ) in flowing(run.stdout)
    assert run.returncode == 1


def test_one_that_hangs_at_its_import_is_given_up(write_plugin: Callable[[str, str], Site]) -> None:
    site = write_plugin("sleepy", "threading.Event().wait()")

    run = northbridge(site, "list", NORTHBRIDGE_DETECT_TIMEOUT="0.4")

    assert row(run.stdout, "sleepy") == ["sleepy", "1.0", "sleepy", "timed out", "no", "-", "-"]
    assert (
        "backend 'sleepy' (sleepy 1.0): its process took longer than 1.7 s while importing its plugin. Fix:"
        " try when this machine is less busy, check the driver, raise NORTHBRIDGE_DETECT_TIMEOUT, or set"
        " NORTHBRIDGE_DISABLE=sleepy"
    ) in flowing(run.stdout)


def test_one_that_hangs_in_load_has_longer_and_is_given_up(write_plugin: Callable[[str, str], Site]) -> None:
    site = write_plugin("stuck", _HANG_IN_LOAD)

    run = northbridge(site, "list", "--load-timeout", "2", NORTHBRIDGE_DETECT_TIMEOUT="1")

    assert row(run.stdout, "stuck")[3:] == ["timed out", "no", "2", "no"]
    assert (
        "its process took longer than 2 s while loading its software, which may be compiled first. Fix:"
        " check the driver, raise --load-timeout if it is compiling, or set NORTHBRIDGE_DISABLE=stuck"
    ) in flowing(run.stdout)


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV while importing its plugin. Fix: match it"),
        ("os._exit(3)", "ended with exit code 3 while importing its plugin. Fix: match it to this torch"),
        ("print('out of licences', file=sys.stderr, flush=True); os._exit(0)", "exit code 0 while importing its"),
    ],
)
def test_one_that_exits_is_told_with_the_stage(write_plugin: Callable[[str, str], Site], deed: str, told: str) -> None:
    found = backend("rude", northbridge(write_plugin("rude", deed), "list", "--json"))

    assert (found["status"], found["loadable"]) == ("broken", False)
    assert told in found["reason"]
    assert ("(out of licences)" in found["reason"]) == ("licences" in deed)


def test_a_crash_is_told_while_what_it_started_lives_on(write_plugin: Callable[[str, str], Site]) -> None:
    site = write_plugin("parent", "if not os.fork(): threading.Event().wait()\nos.kill(os.getpid(), signal.SIGBUS)")

    found = backend("parent", northbridge(site, "list", "--json", NORTHBRIDGE_DETECT_TIMEOUT="1"))

    assert "was killed by SIGBUS while importing its plugin" in found["reason"]


def test_one_that_prints_does_not_garble_the_json(write_plugin: Callable[[str, str], Site]) -> None:
    site = write_plugin("noisy", "print('hello'); os.system('echo hello'); os.write(1, b'{}')")

    run = northbridge(site, "list", "--json")

    found = backend("noisy", run)
    assert (found["status"], found["devices"], found["reason"]) == ("ready", 2, "")
    assert (run.returncode, run.stderr) == (0, "")


def test_what_is_printed_before_the_first_report_is_dropped() -> None:
    """As what runs at the end of ``import torch`` may print, before the child begins to report."""
    question = """
import os
os.write(1, b'{"stage": "done", "facts": {"devices": 64}}' + bytes([10]) + b"hello")
from northbridge.processes.child import Reporter
report = Reporter()
os.write(1, b'{"stage": "done", "facts": {"devices": 65}}' + bytes([10]))
report.begin("load", loadable=True)
report.end(devices=2)
"""
    stages = {"load": Stage("loading", 60.0, "wait")}

    reply = ask(f"exec({question!r})", stages)

    assert reply == Reply({"loadable": True, "devices": 2})


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_the_end_of_the_command_is_the_end_of_what_it_asked(
    write_plugin: Callable[[str, str], Site], tmp_path: Path, number: int, code: int
) -> None:
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    site = write_plugin("endless", f"pipe = open({str(alive)!r}, 'w'); threading.Event().wait()")
    environ = {**os.environ, **NO_CHIP, "PYTHONPATH": os.pathsep.join(map(str, site.folders))}

    assert_children_end(["list"], environ, alive, number, code)


_HANGS = "import threading; from northbridge.processes.child import Reporter; Reporter().begin('hang');"
_HANGS += " threading.Event().wait()"


def test_queue_interrupted() -> None:
    begun, asked = threading.Event(), list[Future[Reply]]()

    def tell(_who: str, what: str) -> None:
        if what == "hanging":
            begun.set()

    def interrupted() -> None:
        with Queue(tell) as queue:
            stages = {"hang": Stage("hanging", 60.0, "wait")}
            asked.extend(queue.submit(queue.ask, "acme", _HANGS, stages) for _ in range(9))
            begun.wait(30)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert begun.is_set()
    assert all(each.cancelled() or isinstance(each.exception(), Stopped) for each in asked)


def test_queue_answers_side_by_side() -> None:
    tells = "from northbridge.processes.child import Reporter; Reporter().end(number={})"
    with Queue(lambda _who, _what: None) as queue:
        asked = [queue.submit(queue.ask, str(number), tells.format(number), {}) for number in range(3)]

        assert [each.result() for each in asked] == [Reply({"number": number}) for number in range(3)]
