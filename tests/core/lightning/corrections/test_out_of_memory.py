from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from northbridge.backend import Backend
from northbridge.device import Device
from northbridge.discovery.named import load
from northbridge.lightning.accelerators import accelerator
from northbridge.lightning.namespaces import Namespace


class Card(Device):
    """A chip that tells of full memory in words of its own."""

    type = "cpu_sim"
    out_of_memory = ("no room on the card",)
    emptied = 0

    def empty_cache(self) -> None:
        self.emptied += 1


@pytest.fixture
def namespace(trainer_namespace: Namespace) -> Namespace:
    """Each namespace with a Trainer."""
    return trainer_namespace


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    """A chip that this process holds, and no other."""
    monkeypatch.setattr(accelerator, "_held", {})
    backend = replace(load("cpu_sim"), device=Card())
    accelerator.hold(backend)
    return backend


@pytest.fixture(params=["utilities.memory", "tuner.batch_size_scaling"])
def lightnings(request: pytest.FixtureRequest, namespace: Namespace) -> Any:
    """Where Lightning knows the functions: where they are, and where its search for a batch size has them from."""
    return namespace.module(request.param)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    ("error", "is_full"),
    [
        (torch.OutOfMemoryError("acme:0 is full"), True),
        (RuntimeError("FATAL: no room on the card: 3 GB"), True),
        (RuntimeError("CUDA out of memory"), True),
        (RuntimeError("the shapes do not fit"), False),
        (ValueError("no room on the card"), False),
    ],
    ids=["torch's error", "the vendor's words", "CUDA's words", "another error", "another kind of error"],
)
def test_lightning_recognizes_a_full_chip(lightnings: Any, error: BaseException, is_full: bool) -> None:
    assert lightnings.is_oom_error(error) is is_full


def test_nothing_changes_in_a_process_that_holds_no_chip(lightnings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "_held", {})

    assert not lightnings.is_oom_error(torch.OutOfMemoryError("acme:0 is full"))


def test_lightning_empties_the_chips_cache(lightnings: Any, backend: Backend) -> None:
    lightnings.garbage_collection_cuda()

    assert isinstance(backend.device, Card)
    assert backend.device.emptied == 1
