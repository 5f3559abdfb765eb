"""One planned fault: its kind, its place, the operation that it names, and how the variable spells it."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY
from difflib import get_close_matches
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pydantic
import torch

import northbridge
from northbridge_cpu_sim.collective import Call
from northbridge_cpu_sim.errors import FaultError
from northbridge_cpu_sim.settings import SimSettings

VARIABLE = SimSettings.variable("faults")

SYNCHRONIZE = "synchronize"
CALLS: frozenset[str] = frozenset(get_args(Call))

_COMPOSED = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
# Operators that the chip runs whole, though torch could compose them; and those that only the chip composes.
_RECURRENT = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
_WHOLE = ("aten::convolution", "aten::convolution_backward", "aten::_foreach_", *_RECURRENT)
_COMPOSED_HERE = frozenset(
    {
        "aten::_efficientzerotensor",
        "aten::_thnn_fused_gru_cell",
        "aten::_thnn_fused_lstm_cell",
        "aten::native_dropout",
    }
)
_UNTOUCHING = frozenset(
    {
        "aten::_reshape_alias",
        "aten::as_strided",
        "aten::record_stream",
        "aten::set_",
        "aten::unfold",
        "aten::view",
    }
)
_COLLECTIVES = ("c10d::", "_c10d_functional::", "c10d_functional::")


def operation_name(text: str) -> str:
    """Return the full name of the operation ``text``: ``aten::mm`` for ``mm``; ``all_reduce`` stays.

    A bare name that is both, such as ``gather``, means the collective library's call. Raises ValueError for an unknown
    name, with the nearest ones, and for an operator that never reaches the chip.
    """
    if text in CALLS or text == SYNCHRONIZE:
        return text
    overloads = _overloads()
    name = text if "::" in text else f"aten::{text}"
    if name not in overloads:
        raise ValueError(f"no such operator or collective: {_nearest(text, overloads)}")
    if name.startswith(_COLLECTIVES):
        raise ValueError(f"{name} wraps a collective. Fix: name it, such as all_reduce")
    if name in _UNTOUCHING:
        raise ValueError(f"{name} touches no memory. Fix: name the op that uses it")
    if name in _COMPOSED_HERE or (not name.startswith(_WHOLE) and all(map(_is_composed, overloads[name]))):
        raise ValueError(f"{name} consists of other operators. Fix: name one of them")
    return name


def _overloads() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        found.setdefault(full.partition(".")[0], []).append(full)
    return found


def _is_composed(full: str) -> bool:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return any(has(full, key) for key in _COMPOSED) and not has(full, "CPU") and not has(full, "SparseCPU")


def _nearest(text: str, overloads: dict[str, list[str]]) -> str:
    full = {name.removeprefix("aten::"): name for name in overloads}
    full.update((name, name) for name in (*CALLS, SYNCHRONIZE))
    near = get_close_matches(text.removeprefix("aten::").partition(".")[0], sorted(full), n=3)
    if not near:
        return "write it as torch does, such as aten::mm or all_reduce, and import what registers it first"
    return f"did you mean {' or '.join(full[name] for name in near)}?"


Kind = Literal["kill", "hang", "slow", "raise", "oom", "corrupt", "lose"]

Whole = Annotated[int, pydantic.Field(ge=0, lt=2**63, description="a whole number from 0")]
Positive = Annotated[int, pydantic.Field(ge=1, lt=2**63, description="a whole number from 1")]
Times = Annotated[Positive | Literal["always"], pydantic.Field(description="a whole number from 1, or always")]
Probability = Annotated[float, pydantic.Field(gt=0, le=1, description="a number above 0 and up to 1")]
Seconds = Annotated[float, pydantic.Field(gt=0, le=86400, description="a number above 0 and up to 86400")]
Number = Annotated[float, pydantic.Field(description="a number, nan and inf among them")]
Operation = Annotated[
    str,
    pydantic.AfterValidator(operation_name),
    pydantic.Field(description="an operator, a call of the collective library, or synchronize"),
]
Message = Annotated[str, pydantic.Field(min_length=1, max_length=1000, description="a text of 1 to 1000 characters")]

_OF_ONE_KIND = {"seconds": "slow", "message": "raise", "value": "corrupt", "bit": "corrupt", "element": "corrupt"}
_WITHOUT_RESULT = frozenset({"barrier", "synchronize"})
_HOLDING_NOTHING = frozenset({"aten::empty", "aten::empty_strided", "aten::resize_"})
_READING = frozenset({"aten::_local_scalar_dense"})


@pydantic.dataclasses.dataclass(frozen=True, repr=False, config=pydantic.ConfigDict(extra="forbid"))
class Fault:
    """A fault that is planned on the chip, in this process.

    ``kind`` is one of ``kill`` (SIGKILL), ``hang``, ``slow``, ``raise`` (RuntimeError), ``oom``
    (torch.OutOfMemoryError), ``corrupt`` (a result is changed) or ``lose`` (the device raises from then on). It happens
    at the first ``times`` events that fit ``rank``, ``step`` (optimizer steps since the plan was made), ``op``,
    ``device`` and ``seq``. ``after`` is a number of events to skip first, and ``probability`` is drawn for each event.

    Raises :class:`FaultError`.
    """

    kind: Kind
    _: KW_ONLY
    rank: Whole | None = None
    step: Whole | None = None
    op: Operation | None = None
    seq: Positive | None = None
    device: Whole | None = None
    after: Whole = 0
    times: Times = 1
    probability: Probability | None = None
    seed: Whole = 0
    seconds: Seconds | None = None
    message: Message | None = None
    value: Number | None = None
    bit: Whole | None = None
    element: Whole = 0

    def __str__(self) -> str:
        said = {name: value for name, value in filters(self).items() if value != _DEFAULTS[name]}
        return " ".join([self.kind, *(f"{name}={shlex.quote(str(value))}" for name, value in said.items())])

    def __repr__(self) -> str:
        return f"<Fault {self}>"

    @pydantic.model_validator(mode="wrap")
    @classmethod
    def _explain(cls, given: Any, validate: pydantic.ValidatorFunctionWrapHandler) -> Any:
        try:
            fault = validate(given)
        except pydantic.ValidationError as error:
            raise _explained(error) from None
        _reject_contradiction(fault)
        return fault


_DEFAULTS: Mapping[str, object] = {
    field.name: field.default for field in dataclasses.fields(Fault) if field.name != "kind"
}


def filters(fault: Fault) -> dict[str, Any]:
    """Return the fields of ``fault`` except its kind, by name."""
    return {name: getattr(fault, name) for name in _DEFAULTS}


def _explained(error: pydantic.ValidationError) -> FaultError:
    first = error.errors()[0]
    name = str(first["loc"][0])
    if first["type"] == "missing":
        return FaultError(f"a fault needs a kind: {', '.join(get_args(Kind))}")
    if name in ("kind", "0"):  # by name, or as the first argument
        kind, hint = first["input"], _hint(first["input"], get_args(Kind))
        return FaultError(f"unknown kind {kind!r}: {hint}")
    if name not in _DEFAULTS:
        return FaultError(f"a fault has no {name!r}: {_hint(name, tuple(_DEFAULTS))}")
    own = first.get("ctx", {}).get("error")  # from our own validator
    reason = f": {own}" if own else f" is not {_allowed(name)}"
    return FaultError(f"{name}={first['input']!r}{reason}")


def _hint(given: object, names: tuple[str, ...]) -> str:
    near = get_close_matches(str(given), names, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"


def _allowed(name: str) -> str:
    # Python 3.10 takes KW_ONLY, the annotation of the line before the keywords, for no type.
    hint = get_type_hints(Fault, localns={"KW_ONLY": object}, include_extras=True)[name]
    (said,) = (get_args(part)[-1] for part in (hint, *get_args(hint)) if get_origin(part) is Annotated)
    return str(said.description)


def _reject_contradiction(fault: Fault) -> None:
    for name, kind in _OF_ONE_KIND.items():
        if getattr(fault, name) != _DEFAULTS[name] and fault.kind != kind:
            raise FaultError(f"{name} is for the kind {kind}, not {fault.kind}. Fix: leave it out")
    if fault.kind == "slow" and fault.seconds is None:
        raise FaultError("the kind slow needs seconds, such as seconds=0.5")
    if fault.value is not None and fault.bit is not None:
        raise FaultError("value and bit contradict. Fix: leave one out")
    if fault.seed != 0 and fault.probability is None:
        raise FaultError("seed needs probability. Fix: give both, or neither")
    if fault.seq is not None and fault.op is None and fault.kind != "oom":
        raise FaultError("seq needs op, as each op has its own count. Fix: give op")
    if fault.kind == "corrupt" and fault.op in _WITHOUT_RESULT:
        raise FaultError(f"{fault.op} has no result to corrupt. Fix: name another op")
    if fault.kind == "corrupt" and fault.op in _HOLDING_NOTHING:
        raise FaultError(f"{fault.op} computes nothing. Fix: corrupt the op that writes")
    if fault.kind == "corrupt" and fault.op in _READING:
        raise FaultError(f"{fault.op} returns no tensor. Fix: corrupt the op before it")


_FAULT = pydantic.TypeAdapter(Fault)


def read_plan(text: str) -> tuple[Fault, ...]:
    """Parse the faults in ``text``, separated by semicolons: each is a kind, and then ``name=value``.

    Raises :class:`northbridge.SettingsError`, which names the wrong fault and the allowed values.
    """
    faults: list[Fault] = []
    for words in _entries(text):
        try:
            faults.append(_fault(words))
        except FaultError as error:
            entry = f"the fault {' '.join(words)!r} of {VARIABLE}"
            raise northbridge.SettingsError(f"{entry} cannot be planned: {error}", variable=VARIABLE) from None
    return tuple(faults)


def _entries(text: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for word in lexer:
            if not word.strip(";"):
                yield from [words] if words else []
                words = []
            else:
                words.append(word)
    except ValueError:
        raise northbridge.SettingsError(
            f"{VARIABLE}={text!r} has an open quote. Fix: close it", variable=VARIABLE
        ) from None
    yield from [words] if words else []


def _fault(words: list[str]) -> Fault:
    kind, *rest = words
    given: dict[str, str] = {"kind": kind}
    for word in rest:
        name, equals, value = word.partition("=")
        if not equals or not value:
            raise FaultError(f"{word!r} is not name=value, such as step=5")
        if name in given:
            raise FaultError(f"{name} is given twice. Fix: leave one out")
        given[name] = value
    return _FAULT.validate_python(given)
