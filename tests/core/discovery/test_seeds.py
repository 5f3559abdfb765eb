"""torch's seed on a chip that is loaded after ``torch.manual_seed()``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import ClassVar

import pytest
import torch

from northbridge import Backend, Device, get, no
from northbridge.autoload import seed_since_import
from northbridge.discovery.seeds import seeded_when_loaded


class _Ghost(Device):
    type: ClassVar[str] = "ghost"

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def seed(self, seed: int) -> None:
        self.seeds.append(seed)


@pytest.fixture
def backend() -> Backend:
    return replace(get("cpu_sim"), device=_Ghost())


@pytest.fixture(autouse=True)
def _state() -> Iterator[None]:
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


def seeds(backend: Backend) -> list[int]:
    with seeded_when_loaded(backend):
        pass
    assert isinstance(backend.device, _Ghost)
    return backend.device.seeds


def test_only_a_seed_that_was_set_reaches_the_chip(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("northbridge.autoload._seed_at_import", torch.initial_seed())
    assert (seed_since_import(), seeds(backend)) == (None, [])

    torch.manual_seed(7)
    assert seeds(backend) == [7]


def test_known_chips_and_those_without_generators_keep_theirs(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(7)
    denied = replace(backend.capabilities, random_numbers=no("it draws none"))
    assert seeds(replace(backend, capabilities=denied)) == []

    monkeypatch.setattr(torch, "ghost", ModuleType("torch.ghost"), raising=False)
    assert seeds(backend) == []
