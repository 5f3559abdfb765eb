"""Strategies for several devices on a chip without a communication library."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.core.lightning.conftest import Build

from northbridge import Capabilities
from northbridge.backend import Backend
from northbridge.discovery.declared import load
from northbridge.errors import UnsupportedError
from northbridge.lightning.namespaces import Namespace

SAID = (
    "'cpu_sim' has no communication library, which several ranks and strategy='ddp' need. Fix: devices=1 and no"
    " strategy, or northbridge.HostCollective() in its plugin"
)


@pytest.fixture(autouse=True)
def alone(run_on: Callable[[Backend], None]) -> None:
    """The simulated chip has no communication library."""
    run_on(replace(load("cpu_sim"), collective=None, capabilities=Capabilities.of_level("C2", simulated=True)))


def run(host: Any) -> None:
    """Begin to train, up to the start of ranks; a Trainer builds its strategy before that."""
    if hasattr(host, "launch"):
        host.launch()


@pytest.mark.parametrize(
    ("devices", "strategy"),
    [(2, None), (2, "ddp"), (1, "ddp"), (1, "ddp_spawn"), (2, "ddp_fork"), (1, "fsdp"), (2, "fsdp")],
)
def test_strategy_names_host_collective(namespace: Namespace, build: Build, devices: int, strategy: str | None) -> None:
    asked: dict[str, Any] = {"strategy": strategy} if strategy else {}

    with pytest.raises(UnsupportedError) as caught:
        run(build(accelerator="cpu_sim", devices=devices, **asked))

    assert (str(caught.value), caught.value.capability) == (SAID, "collective")


def test_fsdp2_names_host_collective(namespace: Namespace, build: Build) -> None:
    strategies: Any = importlib.import_module(f"{namespace.name}.strategies")
    options = {} if namespace.is_trainer else {"parallelize_fn": lambda model, mesh: model}

    with pytest.raises(UnsupportedError) as caught:
        run(build(accelerator="cpu_sim", devices=1, strategy=strategies.ModelParallelStrategy(**options)))

    assert str(caught.value) == SAID


def test_one_device_needs_no_library(namespace: Namespace, build: Build) -> None:
    host = build(accelerator="cpu_sim", devices=1)

    run(host)

    assert "SingleDevice" in type(host.strategy).__name__
