"""Asking for hardware: what a driver may do to the process that asks it, and what the user reads then."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.core.conftest import Install, PlainBridge, make_backend

import northbridge
from northbridge.discovery import installed, present
from northbridge.discovery.present import count_in_child, detect
from northbridge.processes import child, question
from northbridge.processes.environment import children_listen
from northbridge.processes.question import ask

SWITCH = "set NORTHBRIDGE_DISABLE={name}"
ASKING, MATCH = "the process that asked for its devices", f"Fix: match the driver to this torch, or {SWITCH}"
FAILED = (
    "its software failed to load: OSError: libacme.so.3: undefined symbol: _ZN2at4meltE. Fix: match it to this torch"
    " and driver"
)
PATIENCE = "Fix: try when this machine is less busy, check the driver, raise NORTHBRIDGE_DETECT_TIMEOUT, or " + SWITCH


@pytest.fixture
def no_child(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after which a child process that is started fails the test."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a child process was started")

    return lambda: monkeypatch.setattr(subprocess, "Popen", refuse)


class TestTheChild:
    def test_it_loads_the_software_and_counts(self, install_here: Install, no_child: Callable[[], None]) -> None:
        install_here("acme")

        assert detect(northbridge.get("acme")) == 2
        assert "torch_acme" not in sys.modules
        no_child()
        assert detect(northbridge.get("acme")) == 2  # once per process tree
        assert "_NORTHBRIDGE_DETECTED" not in os.environ
        with children_listen():
            assert os.environ["_NORTHBRIDGE_DETECTED"] == '{"acme": {"devices": 2}}'

    def test_software_without_hardware_counts_as_none(
        self, install_here: Install, no_child: Callable[[], None]
    ) -> None:
        """No child is started without the package."""
        install_here("no_hardware", "load_needs_software")

        assert northbridge.available() == {"cpu_sim": 8}
        assert northbridge.Entry("no_hardware", "not available", "no hardware is present") in northbridge.record()
        no_child()
        assert detect(northbridge.get("load_needs_software")) == 0

    def test_a_driver_that_hangs_is_given_up(
        self, install_here: Install, no_child: Callable[[], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its error is not kept: the next question starts a child again."""
        install_here("load_hangs")
        monkeypatch.setenv("NORTHBRIDGE_DETECT_TIMEOUT", "0.5")
        message = (
            "backend 'load_hangs' (northbridge-load-hangs 1.2.3): the process that asked for its devices took longer"
            " than 0.5 s, and in a second try than 1.5 s. " + PATIENCE.format(name="load_hangs")
        )

        with pytest.raises(northbridge.DetectionError) as caught:
            detect(northbridge.get("load_hangs"))

        assert (str(caught.value), caught.value.backend) == (message, "load_hangs")
        assert caught.value.timed_out
        no_child()
        with pytest.raises(AssertionError, match="a child process was started"):
            detect(northbridge.get("load_hangs"))

    def test_a_process_that_has_loaded_it_counts(self, install: Install) -> None:
        program = (
            "import subprocess, northbridge; from northbridge.discovery.present import detect;"
            "acme = northbridge.load('acme'); subprocess.Popen = None; print(detect(acme))"
        )

        assert install("acme").answer(program) == 2

    @pytest.mark.parametrize(
        ("name", "told"),
        [
            ("probe_exits", f"{ASKING} ended with exit code 7 (acme: firmware 0x0 is not supported). {MATCH}"),
            ("probe_crashes", f"{ASKING} was killed by SIGSEGV (no output). {MATCH}"),
            ("load_raises", FAILED),  # as it is told here
        ],
    )
    def test_a_driver_that_fails_is_survived(self, install_here: Install, name: str, told: str) -> None:
        install_here(name)

        with pytest.raises(northbridge.DetectionError) as caught:
            detect(northbridge.get(name))

        said = told.format(name=name)
        assert str(caught.value) == f"backend {name!r} (northbridge-{name.replace('_', '-')} 1.2.3): {said}"


ANSWERING = """#!/bin/sh
word=$(head -c 32)
answer() { printf '\\n%s{"stage": "done", "facts": {"devices": %d}}\\n' "$word" "$1"; }"""
"""A child that has read the word with which reports begin, and can answer a number of devices."""


def spy_on_limits(monkeypatch: pytest.MonkeyPatch, **shorter: float) -> list[float]:
    """Return the list of the limits that children are given from now on, and wait only the ``shorter`` ones."""
    limits: list[float] = []
    ask_child = child.ask

    def ask(question: str, stages: dict[str, child.Stage], *, start: child.Stage, grace_s: float) -> child.Reply:
        limits.append(start.limit)
        monkeypatch.setenv("TRY", str(len(limits)))
        waited = dict(enumerate(shorter.values(), 1)).get(len(limits), start.limit)
        return ask_child(question, stages, start=replace(start, limit=waited), grace_s=grace_s)

    monkeypatch.setattr(child, "ask", ask)
    return limits


class TestAChildThatIsAScript:
    """Print as the child does, without the time of a real one."""

    @pytest.fixture(autouse=True)
    def acme(self, install_here: Install) -> None:
        install_here("acme")

    @pytest.fixture
    def child_that(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
        def act(does: str) -> None:
            script = tmp_path / "python"
            script.write_text(f"{ANSWERING}\n{does}\n")
            script.chmod(0o755)
            monkeypatch.setattr(sys, "executable", str(script))

        return act

    @pytest.mark.parametrize(
        ("does", "told"),
        [
            *((f"echo '{each}'; exit 4", "code 4 (no output)") for each in ("2", 'northbridge found {"devices": 64}')),
            (
                "echo 'Traceback (most recent call last):' >&2; echo 'RuntimeError: ioctl 7' >&2; exit 1",
                "code 1 (RuntimeError: ioctl 7)",  # the last line
            ),
        ],
    )
    def test_a_driver_that_ends_the_process_has_not_answered(
        self, child_that: Callable[[str], None], does: str, told: str
    ) -> None:
        child_that(does)

        with pytest.raises(northbridge.DetectionError, match=re.escape(f"ended with exit {told}")):
            count_in_child(northbridge.get("acme"))

    def test_a_starved_child_is_asked_once_more(
        self, child_that: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that is stopped gets no CPU time, as on a machine with many busy processes."""
        child_that("[ $TRY = 1 ] && kill -STOP $$; answer 3")
        limits = spy_on_limits(monkeypatch, first=0.1)

        assert count_in_child(northbridge.get("acme")) == 3
        assert limits == [20.0, 60.0]

    @pytest.mark.parametrize(
        ("does", "little_s", "waited", "limits", "told"),
        [
            ("sleep 600", 5.0, {"first": 0.1, "second": 0.1}, [20.0, 60.0], "20 s, and in a second try than 60 s."),
            # Also if another process, which it has started, does the work.
            ("(while :; do :; done) & wait", 0.05, {"first": 1.0}, [20.0], "20 s. Fix: try when"),
        ],
        ids=["sleeps", "computes"],
    )
    def test_a_hanging_child_is_tried_again_unless_it_computes(
        self,
        child_that: Callable[[str], None],
        monkeypatch: pytest.MonkeyPatch,
        does: str,
        little_s: float,
        waited: dict[str, float],
        limits: list[float],
        told: str,
    ) -> None:
        child_that(does)
        monkeypatch.setattr(question, "LITTLE_CPU_S", little_s)
        given = spy_on_limits(monkeypatch, **waited)

        with pytest.raises(northbridge.DetectionError, match=re.escape(f"took longer than {told}")):
            count_in_child(northbridge.get("acme"))

        assert given == limits
        assert question.longest(20.0) + 2.0 <= 90.0

    def test_where_no_python_can_be_started_it_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "executable", "/nowhere/python")

        with pytest.raises(northbridge.DetectionError, match=r"start: .*; '/nowhere/python' may not be a Python"):
            count_in_child(northbridge.get("acme"))

    def test_drivers_leftovers_end_with_the_child(
        self, child_that: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NORTHBRIDGE_DETECT_TIMEOUT", "60")
        held = tmp_path / "held"
        os.mkfifo(held)
        with open(os.open(held, os.O_RDONLY | os.O_NONBLOCK), "rb") as pipe:
            child_that(f"sleep 600 > {held} & answer 3")
            begun = time.monotonic()

            assert count_in_child(northbridge.get("acme")) == 3

            assert time.monotonic() - begun < 30
            os.set_blocking(pipe.fileno(), True)
            assert pipe.read() == b""  # it ends with the process that holds it, or never

    def test_the_answers_about_two_backends_are_both_kept(
        self, child_that: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And need no metadata: each ``Trainer()`` counts four times, and reading them takes longer than the rest."""
        acme = northbridge.get("acme")
        other = replace(acme, name="other")
        child_that("answer 3")
        count_in_child(acme)
        child_that("answer 4")
        count_in_child(other)
        monkeypatch.setattr(installed, "read_entry_points", None)

        assert (count_in_child(acme), count_in_child(other)) == (3, 4)


PRINTER = """
import json, os, sys

def answer(name):
    for file in (sys.stdout, sys.stderr):
        print('northbridge found {"devices": 64}', file=file, flush=True)
    return {"devices": 2, "missing": repr(sys.stdin.read())}
"""


def test_a_plugin_cannot_print_into_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what it prints reaches the answer, nor can it read it where it asks for input."""
    (tmp_path / "printer_of_answers.py").write_text(PRINTER)
    monkeypatch.syspath_prepend(tmp_path)
    printer = importlib.import_module("printer_of_answers")

    assert ask("acme", printer.answer, who=str, key="printer", limit=60.0) == {"devices": 2, "missing": "''"}


def test_the_child_imports_nothing_near_it(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A user's random.py or profile.py beside the place where the run is started.
    site = install("load_raises")
    (site.here / "json.py").write_text("raise RuntimeError('this is not the json you are looking for')\n")
    script = tmp_path / "train.py"
    script.write_text("import northbridge\nprint(northbridge.available(), northbridge.record())\n")

    child = site.python(f"import sys; sys.path.remove(''); exec(open({str(script)!r}).read())")
    (site.here / "json.py").unlink()

    assert "libacme.so.3: undefined symbol" in child.stdout, child.stderr


def backend_that(detects: Callable[[], Any]) -> northbridge.Backend:
    class Software(northbridge.Bridge):
        def load(self) -> None:
            raise AssertionError("asking for hardware loaded the software here")

        def detect(self) -> int:
            answer: int = detects()
            return answer

    return make_backend(bridge=Software())


def raises(error: BaseException) -> Callable[[], int]:
    return Mock(side_effect=error)


@pytest.mark.usefixtures("nothing_known")
class TestTheVendorsOwnDetect:
    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            (OSError("no such ioctl"), "raised OSError: no such ioctl"),
            (SystemExit(2), "raised SystemExit: 2"),
            *((each, f"returned {each!r}, not a count") for each in ("2", -1, 1.5, True)),
        ],
    )
    def test_what_is_not_a_count_is_refused(self, answer: object, told: str) -> None:
        cause = answer if isinstance(answer, BaseException) else None
        with pytest.raises(northbridge.DetectionError) as caught:
            detect(backend_that(raises(cause) if cause else lambda: answer))

        assert str(caught.value) == f"backend 'tested': detect() {told}. Fix: upgrade it, or {SWITCH}".format(
            name="tested"
        )
        assert caught.value.__cause__ is cause

    def test_a_count_and_an_error_of_ours_pass_as_they_are(self) -> None:
        error = northbridge.HardwareMissingError("plug it in", backend="tested")

        assert detect(backend_that(lambda: 3)) == 3
        with pytest.raises(northbridge.HardwareMissingError) as caught:
            detect(backend_that(raises(error)))
        assert caught.value is error

    def test_one_that_hangs_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is not asked again while it hangs, and is after it has answered."""
        monkeypatch.setenv("NORTHBRIDGE_DETECT_TIMEOUT", "0.1")
        healed = threading.Event()
        backend = backend_that(lambda: healed.wait() and 4)

        for _ in range(2):
            with pytest.raises(northbridge.DetectionError) as caught:
                detect(backend)
            message = f"backend 'tested': detect() took longer than 0.1 s. {PATIENCE.format(name='tested')}"
            assert (str(caught.value), caught.value.timed_out) == (message, True)

        (hanging,) = [each for each in threading.enumerate() if each.name == "detect tested"]
        healed.set()
        hanging.join()
        assert detect(backend) == 4


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """What asks a child process, which counts three."""
    asked = Mock(return_value=3)
    monkeypatch.setattr(present, "count_in_child", asked)
    return asked


@pytest.mark.parametrize(
    ("package", "count"),
    [
        (None, 3),
        ("json.there_is_no_such_module", 3),  # the child knows more, because subpackages are not imported to look
        ("hal9000_frameworks.torch", 0),
    ],
)
def test_a_child_is_asked_where_the_package_is_installed(asked: Mock, package: str | None, count: int) -> None:
    bridge = type("Packaged", (PlainBridge,), {"package": package})()

    assert detect(make_backend(bridge=bridge)) == count
    assert asked.call_count == bool(count)


def test_every_count_is_checked(asked: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that the bridge has made itself."""
    quick, checked = PlainBridge(), Mock(return_value=None)
    monkeypatch.setattr(quick, "detect", lambda: 5)
    monkeypatch.setattr(PlainBridge, "check_count", checked)

    assert (detect(make_backend(bridge=quick)), asked.call_count) == (5, 0)
    assert detect(make_backend()) == 3
    assert [each.args for each in checked.call_args_list] == [(5,), (3,)]
