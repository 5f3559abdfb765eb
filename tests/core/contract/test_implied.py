"""The functions of torch's module that the defaults of a Device call, and the problems found in them."""

from __future__ import annotations

import inspect
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
import torch

import northbridge
from northbridge.contract.check import IMPLIED, broken_defaults


class Card(northbridge.Device):
    type = "anvil"
    functions: ClassVar[Any] = SimpleNamespace()

    @property
    def module(self) -> ModuleType:
        return cast("ModuleType", self.functions)


@pytest.fixture
def problems(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the problems of torch's module with ``changes``; None leaves a function out."""

    def tell(card: northbridge.Device, claims: northbridge.Capabilities, **changes: Any) -> list[str]:
        right: dict[str, Any] = {line.function: lambda device=None: device for line in IMPLIED.values()}
        found = {name: value for name, value in {**right, **changes}.items() if value is not None}
        monkeypatch.setattr(Card, "functions", SimpleNamespace(**found))
        backend = SimpleNamespace(device=card, present_capabilities=lambda: claims)
        return broken_defaults(cast("northbridge.Backend", backend))

    return tell


NOTHING = northbridge.Capabilities()


def test_missing_function_is_told(problems: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "anvil")
    (told,) = problems(Card(), NOTHING, get_amp_supported_dtype=None)

    assert told == (
        "Card.autocast_dtypes() calls torch.anvil.get_amp_supported_dtype() -> list, and it is not there. Fix:"
        " override autocast_dtypes(), or deny bfloat16 and float16"
    )


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda card, blocking: None, "it asks for 'blocking' too: (card, blocking)"),
        (7, "it cannot be called, being a int"),
    ],
)
def test_function_that_cannot_be_called_is_told(problems: Any, function: object, reason: str) -> None:
    assert problems(Card(), NOTHING, set_device=function) == [
        f"Card.select() calls torch.anvil.set_device(index, /), and {reason}. Fix: override select()"
    ]


class Own(Card):
    def synchronize(self) -> None: ...


@pytest.mark.parametrize(
    ("card", "claims", "changes"),
    [
        (Card(), NOTHING, {}),
        (Card(), NOTHING, {"get_amp_supported_dtype": None}),  # a device type of its own
        (Card(), NOTHING, {"set_device": lambda *given: given, "memory_stats": max}),  # which accept anything
        (Own(), NOTHING, {"synchronize": None}),
        (
            *(Card(), northbridge.Capabilities(random_numbers=northbridge.no("it draws on the host"))),
            {"get_rng_state": None, "set_rng_state": None, "manual_seed_all": None},
        ),
    ],
    ids=["like torch.cuda", "own type", "anything", "overridden", "denied"],
)
def test_module_that_breaks_nothing(
    problems: Any, card: Card, claims: northbridge.Capabilities, changes: dict[str, Any]
) -> None:
    assert problems(card, claims, **changes) == []


def test_every_default_with_a_call_has_a_line() -> None:
    calling = {
        name
        for name, method in vars(northbridge.Device).items()
        if inspect.isfunction(method) and name != "_call" and "self._call(" in inspect.getsource(method)
    }

    assert calling == set(IMPLIED)
    for method, line in IMPLIED.items():
        assert f'self._call("{line.function}"' in inspect.getsource(getattr(northbridge.Device, method))
