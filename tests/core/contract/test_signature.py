"""Signatures: what a call that the contract allows may meet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import pytest

from northbridge.contract.signature import IncomparableError, difference, is_kind_of, parse, signature_of

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
        ("()", "()", ""),
        ("(device)", "(device)", ""),
        ("(device)", "(device=None)", ""),
        ("(device)", "(device, verbose=False)", ""),
        ("(device=None)", "(device=None, *args, **kwargs)", ""),
        ("(*, stream=None)", "(stream=None)", ""),
        ("(device, /)", "(device)", ""),
        ("(device, /)", "(index)", ""),
        ("(seed, /, times=1)", "(s, times=1)", ""),
        ("(device=None)", "()", "it has no parameter 'device'"),
        ("(device=None)", "(index=None)", "it has no parameter 'device'"),
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


@pytest.mark.parametrize(
    ("said", "found"), [("(a, b=1)", "(*args, **kwargs)"), ("(*, a)", "(**rest)"), ("(a, /)", "(*args)")]
)
def test_what_takes_anything_cannot_be_compared(said: str, found: str) -> None:
    with pytest.raises(IncomparableError, match="it accepts anything: "):
        difference(parse(said), parse(found))


@pytest.mark.parametrize("value", [max, 3])
def test_what_tells_no_signature_cannot_be_compared(value: Callable[..., object] | int) -> None:
    with pytest.raises(IncomparableError, match="it has no signature: "):
        signature_of(value)


@pytest.mark.parametrize(
    ("value", "annotation", "fits"),
    [
        (3, "int", True),
        (True, "int", False),
        (True, "bool", True),
        (3, "float", True),
        (3, "str", False),
        (None, "None", True),
        (None, "int | None", True),
        ("x", "int | str | None", True),
        ({"a": 1}, "dict[str, int]", True),
        (OrderedDict(), "dict", True),
        (OrderedDict(), "collections.OrderedDict", True),
        ([], "tuple[int, int]", False),
        (3, "Any", True),
        (None, "object", True),
        (b"", "str", False),
    ],
)
def test_a_result_is_compared_by_the_name_of_its_class(value: object, annotation: str, fits: bool) -> None:
    assert is_kind_of(value, annotation) is fits
