"""``pyhlml``: what can be known of cards without taking one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest


@pytest.fixture
def hlml() -> Iterator[ModuleType]:
    """The management library, opened."""
    import pyhlml
    import torch  # noqa: F401 - the stand-ins are put in place at its end

    pyhlml.hlmlInit()
    yield pyhlml
    pyhlml.hlmlShutdown()


def test_module_ids_are_a_permutation_and_not_the_indices(hlml: ModuleType) -> None:
    cards = range(hlml.hlmlDeviceGetCount())
    modules = [hlml.hlmlDeviceGetModuleID(hlml.hlmlDeviceGetHandleByIndex(card)) for card in cards]
    assert sorted(modules) == list(cards)
    assert modules != list(cards)


def test_texts_are_bytes(hlml: ModuleType) -> None:
    handle = hlml.hlmlDeviceGetHandleByIndex(0)
    assert hlml.hlmlDeviceGetName(handle) == b"HL-225"
    assert all(isinstance(text, bytes) for text in (hlml.hlmlGetDriverVersion(), hlml.hlmlGetHLMLVersion()))


def test_a_held_card_shows_it_is_in_use(run: Callable[..., str], start: Callable[..., subprocess.Popen[str]]) -> None:
    look = """
    import pyhlml
    pyhlml.hlmlInit()
    for card in 0, 1:
        handle = pyhlml.hlmlDeviceGetHandleByIndex(card)
        memory = pyhlml.hlmlDeviceGetMemoryInfo(handle)
        load = pyhlml.hlmlDeviceGetUtilizationRates(handle)
        print(memory.used >> 20, memory.free >> 20, memory.total >> 20, load.aip)
    """
    with start("torch.hpu.init(); print('held', flush=True); input()") as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert run(look) == "98304 0 98304 0\n768 97536 98304 0\n"
        holder.communicate("\n")


def test_nothing_is_answered_before_the_library_is_opened(run: Callable[..., str]) -> None:
    program = """
    import pyhlml
    for call in pyhlml.hlmlDeviceGetCount, pyhlml.hlmlShutdown, pyhlml.hlmlGetDriverVersion:
        try:
            call()
        except pyhlml.HLMLError as error:
            print(error)
    """
    assert run(program) == 3 * "uninitialized (1)\n"


def test_the_library_is_opened_once(hlml: ModuleType) -> None:
    with pytest.raises(hlml.HLMLError_AlreadyInitialized, match=r"already initialized \(5\)"):
        hlml.hlmlInit()


def test_there_is_no_card_beyond_the_last(hlml: ModuleType) -> None:
    with pytest.raises(hlml.HLMLError, match=r"invalid argument \(2\)"):
        hlml.hlmlDeviceGetHandleByIndex(8)
