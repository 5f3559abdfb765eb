"""Plugins that misbehave in the process that asks them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest
from tests.core import broken_plugins
from tests.core.command import NO_CHIP, Completed, assert_children_end, backend, northbridge
from tests.core.conftest import Site

from northbridge.processes.child import Queue, Reply, Stage, Stopped, ask

PLUGINS = {
    "sleepy": "threading.Event().wait()",
    "stuck": "Software.load = lambda self: threading.Event().wait()",
    "counting": "Software.detect = lambda self: threading.Event().wait()",
    "segfault": "os.kill(os.getpid(), signal.SIGSEGV)",
    "licence": "print('out of licences', file=sys.stderr, flush=True); os._exit(0)",
    # A crash is told while what the process has started lives on.
    "parent": "if not os.fork(): threading.Event().wait()\nos.kill(os.getpid(), signal.SIGBUS)",
    "noisy": "print('hello'); os.system('echo hello'); os.write(1, b'{}')",
}
PATIENCE = "Fix: try when this machine is less busy, check the driver, raise NORTHBRIDGE_DETECT_TIMEOUT, or set"


@pytest.fixture(scope="module")
def listed(without_lightning: Site, tmp_path_factory: pytest.TempPathFactory) -> Completed:
    """The list of these plugins, each of which is asked in a child of its own."""
    folder = tmp_path_factory.mktemp("plugins")
    for name, body in PLUGINS.items():
        broken_plugins.write_plugin(folder / name, name, body)
    site = without_lightning.beside(*(folder / name for name in PLUGINS))
    return northbridge(site, "list", "--json", "--load-timeout", "6", NORTHBRIDGE_DETECT_TIMEOUT="1")


LOADING = (
    "its process took longer than 6 s while loading its software, which may be compiled first. Fix: check the driver,"
    " raise --load-timeout if it is compiling, or set NORTHBRIDGE_DISABLE=stuck"
)
IMPORTING = f"its process took longer than 4.25 s while importing its plugin. {PATIENCE} NORTHBRIDGE_DISABLE=sleepy"


@pytest.mark.parametrize(
    ("name", "states", "reason"),
    [
        ("sleepy", ("timed out", False, None), IMPORTING),
        ("stuck", ("timed out", False, 2), LOADING),
        (
            "counting",
            ("timed out", False, None),
            f"detect() took longer than 1 s. {PATIENCE} NORTHBRIDGE_DISABLE=counting",
        ),
        ("segfault", ("broken", False, None), "was killed by SIGSEGV while importing its plugin. Fix: match it"),
        ("licence", ("broken", False, None), "exit code 0 while importing its plugin (out of licences). Fix: match it"),
        ("parent", ("broken", False, None), "was killed by SIGBUS while importing its plugin"),
        ("noisy", ("ready", True, 2), ""),
    ],
)
def test_a_plugin_cannot_hurt_who_asks_it(
    listed: Completed, name: str, states: tuple[object, ...], reason: str
) -> None:
    found = backend(name, listed)

    assert (found["status"], found["loadable"], found["devices"]) == states
    assert reason in found["reason"]
    assert found["reason"].startswith(f"backend {name!r} ({name} 1.0): ") or not reason
    assert (listed.returncode, listed.stderr) == (1, "")


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


@pytest.mark.parametrize(
    ("asks", "number", "code"),
    [
        *((["list"], *each) for each in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9))),
        (["doctor", "endless"], signal.SIGINT, 130),
    ],
)
def test_the_end_of_the_command_is_the_end_of_what_it_asked(
    write_plugin: Callable[[str, str], Site], tmp_path: Path, asks: list[str], number: int, code: int
) -> None:
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    site = write_plugin("endless", f"pipe = open({str(alive)!r}, 'w'); threading.Event().wait()")
    environ = {**os.environ, **NO_CHIP, "PYTHONPATH": os.pathsep.join(map(str, site.folders))}

    assert_children_end(asks, environ, alive, number, code)


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
