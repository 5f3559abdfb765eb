"""The file: what it says, where it says it, how a wrong one is told; and the signatures of its lines."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest
from tests.core.conftest import Install
from tests.core.contract.conftest import HEAD, Write, line

import northbridge
from northbridge.contract import Contract, contract_of
from northbridge.contract.signature import IncomparableError, difference, is_kind_of, parse, signature_of
from northbridge.errors import PluginContractError


def test_it_says_what_the_file_says(write: Write) -> None:
    called = line("toy_chip.count", "function", "() -> int", **{"try": True})
    contract = write("\n# the cards\n", called, line("TOY_CARDS", "environment"))

    count, cards = contract.symbols
    assert (contract.vendor, contract.packages, contract.distributions) == ("Toy", ("toy_chip",), ("toy-chip",))
    assert (count.name, count.signature, count.tried, count.acquires, count.required) == (
        *("toy_chip.count", "() -> int"),
        *(True, False, True),
    )
    assert (cards.kind, cards.tried) == ("environment", False)
    assert str(count) == "toy_chip.count() -> int"
    text = contract.path.read_text().splitlines()
    for symbol in contract.symbols:  # each is found again in the file
        number = int(contract.place(symbol).removeprefix("contract.toml line "))
        assert text[number - 1 : number + 1] == ["[[symbol]]", f"name = '{symbol.name}'"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            [line("toy_chip", "module").replace("'1.0'", "1.20")],
            "'toy_chip': since=1.2: Input should be a valid string",
        ),
        ([line("toy_chip", "modul")], "line 5 is wrong: 'toy_chip': kind='modul': Input should be 'module', 'class'"),
        ([line("toy_chip", "module", meaning="")], "line 5 is wrong: 'toy_chip': meaning is missing"),
        (
            [line("toy_chip", "module", aquires=True)],
            "line 5 is wrong: 'toy_chip': there is no 'aquires'; there are acquires, evidence, kind, meaning, name,",
        ),
        ([line("toy_chip", "module", required="yes")], "required='yes': Input should be a valid boolean"),
        ([line("toy chip", "module")], "line 5 is wrong: 'toy chip': name='toy chip' is not a dotted name"),
        ([line("toy_chip.f", "function")], "a function needs a signature"),
        ([line("toy_chip.f", "function", "() - int")], "'() - int' is not a signature such as '(device=None) -> str'"),
        ([line("toy_chip", "module", "() -> int")], "kind='module' has no signature"),
        ([line("toy_chip", "module", since="")], "since= is missing; only an inferred line may leave it out"),
        ([line("toy_chip", "module", since="?", evidence="inferred")], "since= is missing"),
        ([line("toy_chip", "module", source="the docs")], "source='the docs': String should match pattern"),
        (
            [line("toy_chip.f", "function", "()", **{"try": True})],
            "try=true needs a function whose signature has a result",
        ),
        (
            [line("toy_chip.f", "function", "(card) -> int", **{"try": True})],
            "try=true needs a signature without required arguments",
        ),
        ([line("toy_chip", "module"), line("toy_chip", "class")], "line 13 is wrong: 'toy_chip' is in line 5 already"),
        (["\n[[symbol]\n"], "contract.toml is wrong: Expected ']]' at the end of an array declaration (at line 5,"),
        (["symbol = [{name = 'toy_chip'}]"], "1 symbols, and 0 lines that begin with [[symbol]]"),
        (["\nsymbols = []"], "symbol is missing"),
        ([f"more = {'[' * 100_000}"], "nest"),
    ],
)
def test_a_wrong_line_is_told_with_its_number(write: Write, lines: list[str], told: str) -> None:
    with pytest.raises(PluginContractError) as raised:
        write(*lines)

    assert str(raised.value).startswith("backend 'toy': its contract.toml ")
    assert told in str(raised.value)
    assert str(raised.value).endswith(". Fix: tell its author")
    assert raised.value.backend == "toy"
    with pytest.raises(PluginContractError, match="packages is missing"):
        write(head=HEAD.replace("packages", "# packages"))


def test_the_contract_of_a_backend_lies_beside_its_bridge(install_here: Install) -> None:
    """Or beside a base class of the bridge."""
    install_here("contracted", "acme", "load_raises")
    backend = northbridge.get("contracted")
    derived = type("Derived", (type(backend.bridge),), {})()

    for each in (backend, northbridge.Backend("contracted", backend.device, backend.collective, derived)):
        contract = contract_of(each)
        assert contract is not None
        assert (contract.backend, contract.path.name) == ("contracted", "contract.toml")
    assert [contract_of(northbridge.get(name)) for name in ("acme", "load_raises")] == [None, None]
    gone = Path("gone", "contract.toml")
    with pytest.raises(PluginContractError, match=rf"^{gone} is wrong: \[Errno 2\] No such file"):
        Contract.read(gone)


ALL_KINDS = "(a, b=None, /, c: int=1, *args, d, e: str='x', **kwargs) -> dict[str, int]"


def test_every_kind_of_parameter_is_read() -> None:
    def same(a, b=None, /, c: int = 1, *args, d, e: str = "x", **kwargs):  # type: ignore[no-untyped-def]
        """Take what the text says."""

    said, real = parse(ALL_KINDS), signature_of(same)

    assert [(each.name, each.kind) for each in said.parameters.values()] == [
        (each.name, each.kind) for each in real.parameters.values()
    ]
    assert difference(said, real) == ""
    assert said.return_annotation == "dict[str, int]"


@pytest.mark.parametrize("text", ["", "int", "(", "(a a)", "() -> a struct", "(): return\ndef g()"])
def test_what_is_not_a_signature_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a signature such as"):
        parse(text)


@pytest.mark.parametrize(
    ("said", "found", "reason"),
    [
        ("(device)", "(device=None)", ""),
        ("(device)", "(device, verbose=False)", ""),
        ("(device=None)", "(device=None, *args, **kwargs)", ""),
        ("(*, stream=None)", "(stream=None)", ""),
        ("(device, /)", "(index)", ""),
        ("(seed, /, times=1)", "(s, times=1)", ""),
        ("(device=None)", "()", "it has no parameter 'device'"),
        ("(device=None)", "(device)", "its parameter 'device' must be given"),
        ("()", "(device)", "it asks for 'device' too"),
        ("(a, b)", "(b, a)", "its parameter 'a' is number 2, not 1"),
        ("(a)", "(new=None, a=None)", "its parameter 'a' is number 2, not 1"),
        ("(a)", "(*, a)", "its parameter 'a' is keyword-only, not positional or keyword"),
        ("(a)", "(a, /)", "its parameter 'a' is positional-only, not positional or keyword"),
        ("(*args)", "(args)", "it has no parameter 'args'"),
        ("(a)", "(**kwargs)", "it has no parameter 'a'"),
        ("(a, b, /)", "(a)", "it has no parameter 'b'"),
        ("(a, /)", "(x, y)", "it asks for 'y' too"),
    ],
)
def test_a_call_that_would_fail_is_told(said: str, found: str, reason: str) -> None:
    assert difference(parse(said), parse(found)) == reason


def test_what_takes_anything_or_tells_nothing_is_not_compared() -> None:
    for said, found in (("(a, b=1)", "(*args, **kwargs)"), ("(*, a)", "(**rest)"), ("(a, /)", "(*args)")):
        with pytest.raises(IncomparableError, match="it accepts anything: "):
            difference(parse(said), parse(found))
    for value in (max, 3):
        with pytest.raises(IncomparableError, match="it has no signature: "):
            signature_of(value)


@pytest.mark.parametrize(
    ("value", "annotation", "fits"),
    [
        (3, "int", True),
        (True, "int", False),
        (True, "bool", True),
        (3, "float", True),
        (None, "None", True),
        ("x", "int | str | None", True),
        ({"a": 1}, "dict[str, int]", True),
        (OrderedDict(), "dict", True),
        (OrderedDict(), "collections.OrderedDict", True),
        ([], "tuple[int, int]", False),
        (3, "Any", True),
        (None, "object", True),
    ],
)
def test_a_result_is_compared_by_the_name_of_its_class(value: object, annotation: str, fits: bool) -> None:
    assert is_kind_of(value, annotation) is fits
