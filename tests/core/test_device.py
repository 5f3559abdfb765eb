"""The device's defaults speak to torch's module of that name as one speaks to torch.cuda."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

import northbridge


class Card(northbridge.Device):
    type = "cpu"  # stands for itself where only the name counts


CALLS: dict[str, tuple[str, tuple[object, ...], object, object]] = {
    "count": ("device_count", (), 4, 4),
    "select": ("set_device", (2,), None, None),
    "synchronize": ("synchronize", (), None, None),
    "label": ("get_device_name", (1,), "Anvil", "Anvil"),
    "memory_stats": ("memory_stats", (1,), {"peak": 7}, {"peak": 7}),
    "memory_allocated": ("memory_allocated", (1,), 512, 512),
    "current_index": ("current_device", (), 3, 3),
    "empty_cache": ("empty_cache", (), None, None),
    "seed": ("manual_seed_all", (42,), None, None),
    "random_state": ("get_rng_state", (), "state", "state"),
    "set_random_state": ("set_rng_state", ("state",), None, None),
    "autocast_dtypes": (
        *("get_amp_supported_dtype", (), [torch.bfloat16, torch.float16]),
        (torch.bfloat16, torch.float16),
    ),
}
"""Each default, the function of the module that it calls, with which arguments, what that returns, and the answer."""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """The vendor's torch module."""
    module = Mock(spec_set=[function for function, *_ in CALLS.values()])
    monkeypatch.setattr(torch, "get_device_module", lambda kind: module if kind == "cpu" else None)
    return module


def test_its_module_is_torchs_module_of_that_type() -> None:
    assert Card().module is torch.cpu


@pytest.mark.parametrize("default", CALLS)
def test_each_default_asks_one_thing_of_the_module(default: str, module: Mock) -> None:
    function, arguments, reply, answer = CALLS[default]
    getattr(module, function).return_value = reply

    assert getattr(Card(), default)(*arguments) == answer
    getattr(module, function).assert_called_once_with(*arguments)
    assert len(module.method_calls) == 1


def test_statistics_are_the_readers_own(module: Mock) -> None:
    kept = {"peak": 7.0}
    module.memory_stats.return_value = kept

    Card().memory_stats(0)["peak"] = 0.0

    assert kept == {"peak": 7.0}


def test_current_index_without_current_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_device_module", lambda kind: SimpleNamespace())
    monkeypatch.setattr(torch, "empty", lambda *_, device: SimpleNamespace(device=torch.device(device, 2)))

    assert Card().current_index() == 2


def test_autocast_dtypes_of_torchs_own_device_type() -> None:
    """torch.cpu, torch.cuda and torch.xpu have no get_amp_supported_dtype."""
    dtypes = Card().autocast_dtypes()

    assert dtypes == (torch.bfloat16, torch.float16)
    for dtype in dtypes:
        with torch.autocast("cpu", dtype):
            assert torch.is_autocast_enabled("cpu")


def test_autocast_dtypes_of_a_renamed_type_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.autocast itself fails without the function there."""
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "cpu")

    with pytest.raises(northbridge.UnsupportedError, match=r"torch\.cpu has no get_amp_supported_dtype\. Fix:"):
        Card().autocast_dtypes()


def test_what_needs_no_function_of_the_module(module: Mock) -> None:
    """What is claimed holds unless the device knows better."""
    claimed = northbridge.Capabilities(float16=northbridge.yes)
    scaler = Card().grad_scaler()

    assert (type(scaler), scaler._device) == (torch.amp.GradScaler, "cpu")
    assert Card().root(1) == torch.device("cpu", 1)
    assert Card().capabilities(claimed) is claimed
    assert module.method_calls == []


def test_what_the_vendors_module_raises_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise OSError("the card fell off the bus")

    monkeypatch.setattr(torch, "get_device_module", lambda kind: SimpleNamespace(device_count=fail))

    with pytest.raises(OSError, match="fell off the bus"):
        Card().count()


def test_lacking_function_is_told_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_device_module", lambda kind: SimpleNamespace())

    with pytest.raises(northbridge.UnsupportedError) as refusal:
        Card().random_state()

    assert refusal.value.capability == "get_rng_state"
    assert str(refusal.value) == (
        "torch.cpu has no get_rng_state. Fix: upgrade the vendor's software, or override its caller in Card"
    )
