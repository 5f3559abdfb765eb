"""The four namespaces, and how a user builds a Trainer or a Fabric in each of them."""

from __future__ import annotations

import importlib
import logging
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from northbridge.backend import Backend
from northbridge.capabilities import Claim
from northbridge.discovery import current, declared
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.plugins.atomic_write import name_draft
from northbridge_conformance.runs.processes import tells_of_a_launcher

Build = Callable[..., Any]
Claims = Callable[..., None]


of_trainers, of_fabrics = (
    pytest.mark.parametrize(
        "namespace",
        [each for each in NAMESPACES.values() if each.is_trainer == trains],
        indirect=True,
        ids=lambda namespace: namespace.name,
    )
    for trains in (True, False)
)
"""Let a test have the namespaces with a Trainer for its ``namespace``, or those with a Fabric."""


@pytest.fixture(autouse=True)
def no_variable_of_a_launcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a test know of no launcher; nor the next one of what Lightning has written for the ranks of this one."""
    before = dict(os.environ)
    for variable in before:
        if tells_of_a_launcher(variable) or variable in ("NORTHBRIDGE_DISABLE", "NORTHBRIDGE_SIMULATE"):
            monkeypatch.delenv(variable)
    yield
    for variable in set(os.environ) - set(before):
        if tells_of_a_launcher(variable) or variable == "OMP_NUM_THREADS":
            del os.environ[variable]


@pytest.fixture(scope="session")
def chip() -> None:
    """torch knows the simulated chip."""
    declared.load("cpu_sim")


@pytest.fixture(params=list(NAMESPACES.values()), ids=list(NAMESPACES))
def namespace(request: pytest.FixtureRequest) -> Namespace:
    """Each of Lightning's namespaces in turn, imported as a user imports it."""
    each: Namespace = request.param
    importlib.import_module(each.name)
    return each


@pytest.fixture(
    params=[namespace for namespace in NAMESPACES.values() if namespace.is_trainer],
    ids=lambda namespace: namespace.name,
)
def trainer_namespace(request: pytest.FixtureRequest) -> Namespace:
    """Each namespace with a Trainer; a module whose tests are about no other has it for its ``namespace``."""
    each: Namespace = request.param
    importlib.import_module(each.name)
    return each


@pytest.fixture
def build(namespace: Namespace) -> Build:
    """Build what users of the namespace build, a Trainer that writes and shows nothing or a Fabric."""
    host: Any = getattr(importlib.import_module(namespace.name), namespace.host)
    quiet: dict[str, bool] = {}
    if namespace.is_trainer:
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return lambda **arguments: host(**{**quiet, **arguments})


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """Return Lightning's log in this test: the namespace that was imported last logs for all."""

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    lines: list[str] = []
    keep = Keep(logging.INFO)
    loggers = [logging.getLogger(name) for name in NAMESPACES]
    for logger in loggers:
        logger.addHandler(keep)
    yield lines
    for logger in loggers:
        logger.removeHandler(keep)


@pytest.fixture
def run_on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Backend], None]:
    """Have this process run on another Backend of the simulated chip's name."""

    def put(backend: Backend) -> None:
        monkeypatch.setitem(declared._declared, "cpu_sim", backend)
        monkeypatch.setattr(current, "_up", [backend])

    return put


@pytest.fixture
def claims(run_on: Callable[[Backend], None]) -> Claims:
    """Have the simulated chip claim something else about what it can do."""

    def claim(**claims: Claim) -> None:
        backend = declared.load("cpu_sim")
        run_on(replace(backend, capabilities=replace(backend.capabilities, **claims)))  # type: ignore[arg-type]  # claims

    return claim


def killed_while_writing(target: Path, *, shards: bool = False) -> Path:
    """Return the draft of a process that was killed while it wrote."""
    child = os.fork()
    if child == 0:
        draft = name_draft(target)
        if shards:
            draft.mkdir()
            draft = draft / "__0_0.distcp"
        draft.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (draft,) = (each for each in target.parent.glob(f".{target.name}*.part") if f".{child}-" in each.name)
    return draft


def refusal(
    kind: type[Exception], act: Callable[..., object], *args: Any, capability: str | None = None, **arguments: Any
) -> str:
    """Return what the error says that ``act`` raises with these arguments; it may name the ``capability`` too."""
    with pytest.raises(kind) as caught:
        act(*args, **arguments)
    assert capability in (None, getattr(caught.value, "capability", None))
    return str(caught.value)
