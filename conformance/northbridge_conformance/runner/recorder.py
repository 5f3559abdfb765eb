"""The pytest plugin that keeps the event log: ``pytest -p northbridge_conformance.runner.recorder``.

It changes nothing about the tests. For each test it records the topic, the ending, and if a clear error refused an
operation that the backend does not support.
"""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Collection, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from northbridge.errors import UnsupportedError
from northbridge_conformance import rewrite_assertions
from northbridge_conformance.runner.event_log import Began, Ended, EventLog, Planned, Uncollected
from northbridge_conformance.runner.late_errors import UNUSABLE
from northbridge_conformance.runs.processes import dump_stacks_when_asked
from northbridge_conformance.runs.scenario import HungError, RunError
from northbridge_conformance.verdict import MOST_EVIDENCE, PROPERTY, Ending, Figure, VoidError

if TYPE_CHECKING:
    from northbridge_conformance.ahead import RunsAhead
    from northbridge_conformance.suite import Suite

pytest_plugins: tuple[str, ...] = ("northbridge_conformance.runner.late_errors",)

_UNSUPPORTED = re.compile(
    r"not (?:been |yet )?(?:implemented|supported)|unsupported|does not support|could not run|has no |no kernel|cannot",
    re.IGNORECASE,
)
"""Words of torch and vendors for an unsupported operation."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that the supervising process sets."""
    group = parser.getgroup("northbridge")
    group.addoption("--northbridge-log", type=Path, required=True, help="the file to write into")
    group.addoption("--northbridge-done", type=Path, default=None, help="a file with the ids that have an ending")
    group.addoption("--northbridge-only", action="append", default=[], help="a part of an id; of several, any")
    group.addoption("--northbridge-ahead", action="store_true", help="begin runs before a test needs them")


def pytest_configure(config: pytest.Config) -> None:
    """Start the event log of this run."""
    rewrite_assertions()  # in a fork the package was imported before pytest
    config.pluginmanager.register(EventRecorder(config), "northbridge-recorder")


class EventRecorder:
    """The hooks that write the event log."""

    def __init__(self, config: pytest.Config) -> None:
        log: Any = config.getoption("--northbridge-log")
        done: Any = config.getoption("--northbridge-done")
        only: Any = config.getoption("--northbridge-only")
        self._log = EventLog(log)
        self._done = set(done.read_text().splitlines()) if done is not None else set[str]()
        self._only: list[str] = only
        self._began = 0.0
        self._ended: tuple[Ending, str] | None = None
        self._ahead: RunsAhead | None = None
        dump_stacks_when_asked(log.parent)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Log the planned tests, and deselect those that have ended."""
        planned = [(item, describe(item, self._only)) for item in items]
        for _, test in planned:
            self._log.write(test)
        items[:] = [item for item, test in planned if test.chosen and test.id not in self._done]

    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Freeze the objects of the imports, and begin the runs that need no chip."""
        gc.freeze()  # the memory tests collect garbage, and would traverse all of torch and pytest each time
        if session.config.getoption("--northbridge-ahead"):
            from northbridge_conformance.ahead import RunsAhead

            self._ahead = RunsAhead(session.items)

    def pytest_sessionfinish(self) -> None:
        """Leave no run behind."""
        if self._ahead is not None:
            self._ahead.end()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Log the reason of a failed collection."""
        if report.failed:
            self._log.write(Uncollected(reason=report.longreprtext[-MOST_EVIDENCE:]))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Log the beginning and the end of a test."""
        self._ended = None
        self._began = time.monotonic()
        self._log.write(Began(id=identify(item)))
        result = yield
        ending, evidence = self._ended or (Ending.WORKED, "")
        seconds = time.monotonic() - self._began
        figures = tuple(Figure.model_validate(each) for name, each in item.user_properties if name == PROPERTY)
        test, operators = identify(item), claims_of_operators(item)
        self._log.write(
            Ended(id=test, ending=ending, seconds=seconds, evidence=evidence, claims=operators, figures=figures)
        )
        if self._ahead is not None and _suite(item).level != "C0":  # the tests of C0 load no chip
            self._ahead.begin_on_the_chip()
        if item.stash.get(UNUSABLE, False):
            item.session.shouldstop = "the device takes no more work; the supervisor starts the next process"
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the test's ending, from its first error."""
        report = yield
        if report.outcome != "passed" and self._ended is None:
            assert call.excinfo is not None
            ending = classify(call.excinfo.value)
            short = ending in (Ending.FORBIDDEN, Ending.VOID)
            evidence = str(call.excinfo.value) if short else report.longreprtext
            self._ended = ending, evidence[-MOST_EVIDENCE:]
        return report


def identify(item: pytest.Item) -> str:
    """Return the test's id in a report: ``C1/Device/test_indexing``."""
    suite = _suite(item)
    return f"{suite.level}/{suite.__name__.removeprefix('Test')}/{item.name}"


def describe(item: pytest.Item, only: Collection[str] = ()) -> Planned:
    """Return the plan of a test; it is chosen if ``only`` is empty or one of its texts is in the test's id."""
    suite = _suite(item)
    return Planned(
        id=identify(item),
        chosen=not only or any(part in identify(item) for part in only),
        level=suite.level,
        topic=(suite.__doc__ or "").strip().split("\n")[0],
        title=name_test(item),
        claims=claims_of(item),
        advice=suite.advice,
    )


_WRITTEN = (
    "16-bit 16-mixed AdamW all-gather all-reduce API bf16-mixed clip_grad_norm CPU DDP Fabric fork_rng in-place"
    " Lightning map_location NaN no_grad non-blocking non-contiguous non-finite Northbridge NumPy reduce-scatter RNG"
    " second-order state_dict sys.path TF32 Trainer zero_grad"
)
"""Words that the name of a function cannot have as they are written elsewhere."""

_NAMES = {re.sub(r"[-_.]", " ", name.lower()): name for name in _WRITTEN.split()}
_NAME = re.compile(rf"\b({'|'.join(_NAMES)})\b")


def name_test(item: pytest.Item) -> str:
    """Return the title of a test, from its function and parameters: ``Views match the CPU: two devices, mlp``."""
    function = item.name.partition("[")[0].removeprefix("test_").replace("_", " ")
    title = _NAME.sub(lambda found: _NAMES[found[0]], function)
    if not re.match(r"\S*[\d_]", title):  # a dtype, or a function of torch
        title = title[0].upper() + title[1:]
    callspec: Any = getattr(item, "callspec", None)
    if callspec is None:
        return title
    # pytest joins the ids of several parameters by hyphens, which some have themselves.
    ids: list[str] = list(getattr(callspec, "_idlist", ())) or [callspec.id]
    return f"{title}: {', '.join(ids)}".replace(" device-", " device, ").replace(" devices-", " devices, ")


def claims_of(item: pytest.Item) -> tuple[str, ...]:
    """Return the claims that a test shows; see :func:`northbridge_conformance.suite.shows`."""
    from northbridge.capabilities import Capabilities

    function: Any = getattr(item, "obj", None)
    callspec: Any = getattr(item, "callspec", None)
    parameters: dict[str, Any] = {} if callspec is None else callspec.params
    named = (*_suite(item).claims, *getattr(function, "claims", ()))
    found = dict.fromkeys(name.format(**parameters) for name in named)
    return tuple(name for name in found if name in Capabilities().claims())


def claims_of_operators(item: pytest.Item) -> tuple[str, ...]:
    """Return the claims of the operators that a test has called on the chip, if the chip denies or loosens some."""
    from northbridge_conformance.tests.device.claimed_operators import PROPERTY as OPERATOR

    return tuple(str(claim) for name, claim in item.user_properties if name == OPERATOR)


def classify(error: BaseException) -> Ending:
    """Return the ending of a test that raised ``error``."""
    if isinstance(error, pytest.skip.Exception):
        return Ending.FORBIDDEN
    if isinstance(error, VoidError):
        return Ending.VOID
    if isinstance(error, HungError):
        return Ending.HUNG
    if isinstance(error, RunError):
        return Ending.FAILED  # its text is the output of whole processes
    if isinstance(error, UnsupportedError | NotImplementedError):
        return Ending.REFUSED
    if isinstance(error, RuntimeError | TypeError) and _UNSUPPORTED.search(str(error)):
        return Ending.REFUSED
    return Ending.FAILED


def _suite(item: pytest.Item) -> type[Suite]:
    parent = item.getparent(pytest.Class)
    assert parent is not None
    suite: type[Suite] = parent.obj
    return suite
