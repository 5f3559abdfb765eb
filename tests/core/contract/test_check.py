"""Each line against the software, also the lines that a Device's defaults imply; nothing takes a card."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
import torch
from tests.core.contract.conftest import HEAD, Write, line

import northbridge
from northbridge.contract import check, reject_broken
from northbridge.contract.check import IMPLIED, broken_defaults
from northbridge.errors import ContractError

Software = Callable[[str], ModuleType]

CODE = """
taken = []

def count() -> int:
    return 2

def name(device=None):
    taken.append(device)
    return "Toy"

def lazy():
    return "1"

def fails():
    raise OSError("no driver")

class Stream:
    limit = 3

    def __init__(self, device=None, priority=0): ...

    def wait(self, event): ...

def __getattr__(name):
    if name == "handle":
        taken.append(name)
        return 7
    if name == "angry":
        raise OSError("no driver")
    raise AttributeError(name)

wrapped = lambda *args, **kwargs: None
native = max
"""


TRY = {"try": True}


def judge(write: Write, *lines: str, acquire: bool = False) -> list[tuple[str, str]]:
    return [(each.verdict, each.found) for each in check(write(*lines), acquire=acquire)]


HOLDS = [
    line("toy_chip", "module"),
    line("toy_chip.count", "function", "() -> int"),
    line("toy_chip.name", "function", "(device=None) -> str"),
    line("toy_chip.Stream", "class"),
    line("toy_chip.Stream", "class", "(device=None, priority=0)"),
    line("toy_chip.Stream.wait", "method", "(event)"),
    line("toy_chip.Stream.wait", "method", "(self, event)"),
    line("toy_chip.Stream.limit", "attribute"),
    line("toy_chip.handle", "attribute"),
    line("toy_chip.empty_cache", "absent"),
]
WRONG = [
    (line("toy_chip.empty_cache", "function", "()"), "toy_chip has no 'empty_cache'"),
    (line("toy_chip.Stream.query", "method", "()"), "toy_chip.Stream has no 'query'"),
    (line("no_such_chip", "module"), "there is no module 'no_such_chip'"),
    (line("no_such_chip.f", "function", "()"), "there is no module 'no_such_chip'"),
    (line("toy_chip.count", "module"), "it is not a module, but a function"),
    (line("toy_chip.count", "class"), "it is not a class, but a function"),
    (line("toy_chip.taken", "function", "()"), "it cannot be called, being a list"),
    (line("toy_chip.count", "function", "(device)"), "it has no parameter 'device': () -> int"),
    (line("toy_chip.Stream.wait", "method", "(event, stream)"), "it has no parameter 'stream': (event)"),
    (line("toy_chip.angry", "attribute"), "reading toy_chip.angry raised OSError: no driver"),
    (line("toy_chip.lazy", "function", "() -> bool", **TRY), "called, it returned '1', a str"),
    (line("toy_chip.fails", "function", "() -> bool", **TRY), "called, it raised OSError: no driver"),
]
NO_SIGNATURE = "it is there; it has no signature: no signature found for builtin <built-in function max>"
NEITHER = [
    (
        line("toy_chip.graphs", "function", "()", required=False),
        *("note", "toy_chip has no 'graphs', which the contract allows"),
    ),
    (line("toy_chip.count", "absent"), "note", "it is there after all, a function"),
    (line("toy_chip.native", "function", "(a, b)"), "unchecked", NO_SIGNATURE),
    (
        line("toy_chip.wrapped", "function", "(a, b)"),
        *("unchecked", "it is there; it accepts anything: (*args, **kwargs)"),
    ),
    (line("TOY_CARDS", "environment"), "unchecked", "a variable, no symbol to look up"),
    (line("the import sets TOY", "behaviour"), "unchecked", "a behaviour, no symbol to look up"),
]


@pytest.mark.parametrize(
    ("said", "verdict", "found"),
    [
        *((each, "holds", "") for each in HOLDS),
        *((each, "wrong", found) for each, found in WRONG),
        *NEITHER,
        (line("toy_chip.count", "function", "() -> int", **TRY), "holds", "called, it returned 2"),
    ],
)
def test_each_line_is_judged(write: Write, software: Software, said: str, verdict: str, found: str) -> None:
    software(CODE)

    assert judge(write, said) == [(verdict, found)]


TAKING = (
    line("toy_chip.name", "function", "(device=None) -> str", acquires=True, **TRY),
    line("toy_chip.handle", "attribute", acquires=True),
)


def test_a_card_is_taken_only_where_that_is_asked_for(write: Write, software: Software) -> None:
    module = software(CODE)

    assert judge(write, *TAKING) == [
        ("holds", "it was not called, which would take a card; --acquire does"),
        ("unchecked", "to read it would take a card; --acquire does"),
    ]
    assert module.taken == []
    assert judge(write, *TAKING, acquire=True) == [("holds", "called, it returned 'Toy'"), ("holds", "")]
    assert module.taken == [None, "handle"]


def test_a_module_is_imported_where_needed(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "toy_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "inner.py").write_text("def is_lazy(): ...")
    (package / "broken.py").write_text("raise OSError('no driver')")
    monkeypatch.syspath_prepend(tmp_path)

    found = judge(
        write,
        line("toy_package.inner.is_lazy", "function", "()"),
        line("toy_package.broken.f", "function", "()"),
        line("toy_package.gone", "module"),
    )

    assert found == [
        ("holds", ""),
        ("wrong", "import toy_package.broken raised OSError: no driver"),
        ("wrong", "toy_package has no 'gone'"),
    ]
    for name in ("toy_package", "toy_package.inner"):
        monkeypatch.delitem(sys.modules, name)


def test_software_as_the_contract_says_passes(write: Write, software: Software) -> None:
    module = software(CODE)

    reject_broken(write(*TAKING, *(said for said, *_ in NEITHER)))

    assert module.taken == []


def test_missing_symbol_is_refused_with_its_line(write: Write, software: Software) -> None:
    software(CODE)
    contract = write(
        line("toy_chip", "module"),
        line("toy_chip.graph", "function", "(stream=None)", evidence="inferred", since="1.18"),
    )

    with pytest.raises(ContractError) as raised:
        reject_broken(contract)

    assert str(raised.value) == (
        "backend 'toy' needs toy_chip.graph(stream=None), and toy_chip has no 'graph'; found no toy-chip."
        " contract.toml line 13 (inferred, https://toy.example/docs) is wrong. Fix: run `northbridge doctor"
        " toy`, and install a release of Toy's software that has it (1.18 is known to), or tell the backend's"
        " author"
    )
    assert raised.value.backend == "toy"


def test_other_signature_is_refused_and_more_are_counted(write: Write, software: Software) -> None:
    software(CODE)
    contract = write(
        line("toy_chip.count", "function", "(device=None) -> int", evidence="inferred", since=""),
        line("toy_chip.graph", "function", "()"),
        head=HEAD.replace("toy-chip", "pydantic"),
    )

    with pytest.raises(ContractError) as raised:
        reject_broken(contract)

    needs = "needs toy_chip.count(device=None) -> int, and it has no parameter 'device': () -> int; found pydantic 2"
    assert needs in str(raised.value)
    assert "docs) is wrong, and so are 1 more. Fix" in str(raised.value)
    assert "line 5 (inferred" in str(raised.value)
    assert "software that has it, or tell" in str(raised.value)


def test_a_module_not_imported_is_left_alone(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But it must be installed."""
    with pytest.raises(ContractError, match="needs toy_management, and there is no module 'toy_management'; found no"):
        reject_broken(write(line("toy_management", "module")))
    (tmp_path / "toy_management.py").write_text("raise OSError('no driver')")
    monkeypatch.syspath_prepend(tmp_path)

    reject_broken(write(line("toy_management", "module"), line("toy_management.count", "function", "()")))

    assert "toy_management" not in sys.modules


def test_a_stand_in_that_watches_its_attributes_sees_no_reading(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Watched(ModuleType):
        def __getattribute__(self, name: str) -> object:
            seen.append(name)
            return super().__getattribute__(name)

    module = Watched("toy_chip")
    module.count = lambda: 2  # type: ignore[attr-defined]  # a module takes any attribute
    monkeypatch.setitem(sys.modules, "toy_chip", module)
    seen.clear()

    reject_broken(write(line("toy_chip.count", "function", "()")))

    assert seen == []


class Card(northbridge.Device):
    type = "anvil"
    functions: ClassVar[Any] = SimpleNamespace()

    @property
    def module(self) -> ModuleType:
        return cast("ModuleType", self.functions)


class Own(Card):
    def synchronize(self) -> None: ...


@pytest.fixture
def problems(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the problems of torch's module with ``changes``; None leaves a function out."""

    def tell(card: type[Card] = Card, denied: tuple[str, ...] = (), **changes: Any) -> list[str]:
        right: dict[str, Any] = {each.function: lambda device=None: device for each in IMPLIED.values()}
        found = {name: value for name, value in {**right, **changes}.items() if value is not None}
        monkeypatch.setattr(Card, "functions", SimpleNamespace(**found))
        claims = northbridge.Capabilities(**dict.fromkeys(denied, northbridge.no("it has none")))  # type: ignore[arg-type]
        backend = SimpleNamespace(device=card(), present_capabilities=lambda: claims)
        return broken_defaults(cast("northbridge.Backend", backend))

    return tell


def test_missing_function_is_told(problems: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "anvil")

    assert problems(denied=("bfloat16",), get_amp_supported_dtype=None) == [
        (
            "Card.autocast_dtypes() calls torch.anvil.get_amp_supported_dtype() -> list, and it is not there. Fix:"
            " override autocast_dtypes(), or deny bfloat16 and float16"
        )
    ]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda card, blocking: None, "it asks for 'blocking' too: (card, blocking)"),
        (7, "it cannot be called, being a int"),
    ],
)
def test_function_that_cannot_be_called_is_told(problems: Any, function: object, reason: str) -> None:
    assert problems(set_device=function) == [
        f"Card.select() calls torch.anvil.set_device(index, /), and {reason}. Fix: override select()"
    ]


def test_module_that_breaks_nothing(problems: Any) -> None:
    denied = ("random_numbers",)

    assert problems() == []  # like torch.cuda
    assert problems(get_amp_supported_dtype=None) == []  # a device type of its own
    assert problems(set_device=lambda *given: given, memory_stats=max) == []  # which accept anything
    assert problems(Own, synchronize=None) == []
    assert problems(denied=denied, get_rng_state=None, set_rng_state=None, manual_seed_all=None) == []


def test_every_default_with_a_call_has_a_line() -> None:
    calling = {
        name
        for name, method in vars(northbridge.Device).items()
        if inspect.isfunction(method) and name != "_call" and "self._call(" in inspect.getsource(method)
    }

    assert calling == set(IMPLIED)
    for method, implied in IMPLIED.items():
        assert f'self._call("{implied.function}"' in inspect.getsource(getattr(northbridge.Device, method))
