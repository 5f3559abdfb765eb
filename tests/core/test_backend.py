"""One chip family as one value, and the defaults of its parts."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, fields
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from tests.core.conftest import Install, PlainBridge, PlainDevice, make_backend

import northbridge
from northbridge import Capabilities, Claim, Within, no, unknown, yes
from northbridge.capabilities import DENIABLE, FACTS


def test_it_claims_nothing_and_speaks_the_first_api_unless_told() -> None:
    backend = make_backend()

    assert (backend.capabilities, backend.api) == (northbridge.Capabilities(), 1)
    assert backend.bridge.backend == "tested"
    with pytest.raises(FrozenInstanceError):
        backend.name = "another"  # type: ignore[misc]  # the point of the test


class Typeless(northbridge.Device): ...


class Nameless(northbridge.Collective): ...


@pytest.mark.parametrize(
    ("part", "value", "told"),
    [
        *(
            (part, "nonsense", f"{part} must be a northbridge.{part.capitalize()}, found 'nonsense'")
            for part in ("device", "bridge", "capabilities", "acceleration")
        ),
        ("collective", "nonsense", "collective must be a northbridge.Collective or None, found 'nonsense'"),
        ("device", PlainDevice, f"device must be a northbridge.Device, found {PlainDevice!r}"),
        ("device", Typeless(), 'Typeless needs type = "…"'),
        ("collective", Nameless(), 'Nameless needs name = "…"'),
    ],
    ids=repr,
)
def test_a_part_of_another_kind_is_refused_by_its_name(part: str, value: object, told: str) -> None:
    parts: dict[str, Any] = {part: value}
    with pytest.raises(TypeError) as caught:
        make_backend(**parts)

    assert str(caught.value) == f"Backend('tested', …): {told}"


class TestNoCollective:
    """A chip without a communication library trains on one device."""

    def test_claims_of_several_ranks_are_denied(self) -> None:
        own = northbridge.no("it lacks scatter")

        backend = make_backend(collective=None, capabilities=northbridge.Capabilities.of_level("C2", sharding=own))

        claims = backend.capabilities.claims()
        assert [
            claims[name].reason for name in ("sum_all_reduce", "barrier", "ddp_averaging", "fsdp", "deepspeed")
        ] == ["it has no communication library"] * 5
        assert (claims["fit"], claims["sharding"]) == (northbridge.yes, own)

    def test_claimed_sum_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="sum_all_reduce is claimed") as caught:
            make_backend(collective=None, capabilities=northbridge.Capabilities.of_level("C3"))

        assert str(caught.value) == (
            "Backend('tested', …): sum_all_reduce is claimed, but collective is None. Fix:"
            " northbridge.HostCollective(), or no such claim"
        )

    def test_require_collective_names_host_collective(self) -> None:
        with pytest.raises(northbridge.UnsupportedError) as caught:
            make_backend(collective=None).require_collective()

        assert caught.value.capability == "collective"
        assert str(caught.value) == (
            "'tested' has no communication library, which several ranks and strategy='ddp' need. Fix: devices=1 and no"
            " strategy, or northbridge.HostCollective() in its plugin"
        )


def test_what_crosses_is_found_anew_on_the_other_side(install: Install) -> None:
    sent = install("acme").python("import pickle, northbridge, sys; print(pickle.dumps(northbridge.get('acme')))")

    name = install("acme").python(f"import pickle; print(pickle.loads({sent.stdout.strip()}).device.type)")

    assert (name.stdout, name.stderr) == ("acme\n", "")


INTERFACES = {northbridge.Device: 16, northbridge.Collective: 16, northbridge.Bridge: 16, northbridge.Acceleration: 12}


def test_an_interface_has_few_methods_and_asks_for_one() -> None:
    for kind, most in INTERFACES.items():
        methods = [name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")]
        assert 0 < len(methods) <= most, kind

    abstract = {kind.__name__: sorted(getattr(kind, "__abstractmethods__", ())) for kind in INTERFACES}
    assert abstract == {"Device": [], "Collective": [], "Bridge": ["load"], "Acceleration": []}


def test_missing_asks_for_the_top_level_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for one without a spec, such as a script's stub, of which importlib raises ValueError."""

    class Packaged(PlainBridge):
        pass

    assert (PlainBridge().detect(), PlainBridge().missing(), PlainBridge().describe_machine()) == (None, None, {})
    for package, missing in (
        ("json.there_is_no_such_module", None),  # load() tells
        ("torch_hal9000.chip", "its software 'torch_hal9000.chip' is not installed"),
    ):
        Packaged.package = package
        assert Packaged().missing() == missing
    monkeypatch.setitem(sys.modules, "torch_hal9000", ModuleType("torch_hal9000"))
    assert Packaged().missing() is None


@pytest.fixture
def plain() -> northbridge.Acceleration:
    """Of a chip that overrides nothing."""
    acceleration = northbridge.Acceleration()
    acceleration.device_type = "cpu"
    return acceleration


def unregistered() -> None:
    raise RuntimeError("Graph is not supported on device type: cpu")


REGISTERED = (
    "'cpu' has registered no graph in torch: Graph is not supported on device type: cpu. Fix: run without graphs"
)
TOO_OLD = (
    f"torch {torch.__version__} has no torch.accelerator.Graph. Fix: install torch 2.13 or later, or run without graphs"
)
NO_LOADER = "'cpu' has no loader of its own for TensorDataset. Fix: torch.utils.data.DataLoader"


def test_what_a_plain_chip_lacks_is_told(plain: northbridge.Acceleration, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(ask: Callable[[], object]) -> tuple[str, str]:
        with pytest.raises(northbridge.UnsupportedError) as caught:
            ask()
        return str(caught.value), caught.value.capability

    images = torch.utils.data.TensorDataset(torch.ones(2))
    assert refused(lambda: plain.image_loader(images)) == (NO_LOADER, "data_loaders")
    monkeypatch.setattr(torch.accelerator, "Graph", unregistered, raising=False)
    assert refused(plain.graph) == (REGISTERED, "graphs")
    monkeypatch.delattr(torch.accelerator, "Graph")
    assert refused(plain.graph) == (TOO_OLD, "graphs")


def test_a_chip_with_nothing_of_its_own_says_so(plain: northbridge.Acceleration) -> None:
    assert (plain.fused_optimizers(), plain.compile_options(), plain.compilations()) == ({}, {}, {})
    assert plain.float8_engines() == {}
    plain.device_type = "acme"
    assert plain.profiler_activity() is None


def test_only_a_denial_is_denied_and_it_has_a_reason() -> None:
    claim = no("its adders are 16 bits wide")

    assert (claim.denied, claim.reason) == (True, "its adders are 16 bits wide")
    assert [yes.denied, unknown.denied] == [False, False]
    with pytest.raises(ValueError, match="a claim of 'no' needs a reason"):
        no("")


def test_chip_that_claims_nothing_is_real_and_unknown() -> None:
    """A simulated one is exact unless it rounds."""
    capabilities = Capabilities()

    assert (capabilities.simulated, capabilities.auto, capabilities.rounds) == (False, True, False)
    said = [name for name, claim in capabilities.claims().items() if claim.answer != "unknown"]
    assert said == ["float32_products", "device_checks"]
    claims = (capabilities, Capabilities(simulated=True), Capabilities(simulated=True, rounds=True))
    assert [each.exact for each in claims] == [False, True, False]


def test_claims_are_found_by_their_names_and_cannot_be_changed() -> None:
    """Every field but the facts and the operators is one, and three are deniable."""
    capabilities = Capabilities(float64=no("it has no such unit"))

    assert set(capabilities.claims()) == {each.name for each in fields(Capabilities)} - {*FACTS, "operators"}
    assert capabilities.claims()["float64"] is capabilities.float64
    with pytest.raises(FrozenInstanceError):
        capabilities.bfloat16 = yes  # type: ignore[misc]  # the point of the test
    assert {"random_numbers", "memory_stats", "pinned_memory"} == DENIABLE
    assert all(Capabilities.of_level("C2").claims()[name] is yes for name in DENIABLE)


def test_operators_are_denied_or_loosened_with_a_reason() -> None:
    """Such capabilities can be a key, sent to another process and written down, as others can."""
    said = {"lstm": no("it has no cell"), "asin": Within(3e-4, "its table has 12 bits")}

    capabilities = Capabilities.of_level("C1", operators=said)

    assert capabilities.claims()["operators.lstm"] is said["lstm"]
    assert capabilities.claims()["operators.asin"] == Claim("yes", "within 0.0003: its table has 12 bits")
    assert {pickle.loads(pickle.dumps(capabilities))} == {capabilities}
    assert asdict(capabilities)["operators"]["asin"] == {"bound": 3e-4, "reason": "its table has 12 bits"}


@pytest.mark.parametrize(
    ("bound", "reason", "words"),
    [
        (3e-4, "", "a bound needs a reason"),
        (0, "x", "above 0 and below 1. Fix:"),
        (2, "x", "above 0 and below 1. Fix:"),
    ],
)
def test_looser_bound_needs_a_reason_and_a_size(bound: float, reason: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Within(bound, reason)


A_CLAIM = "northbridge.yes, northbridge.unknown or northbridge.no('the reason')"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"float64": True}, f"float64=True): expected {A_CLAIM}"),
        ({"float16": no}, "float16=<function no"),
        ({"simulated": yes}, "simulated=Claim"),
        ({"operators": ["lstm"]}, "operators=['lstm']): expected a dict of operators, each with northbridge.no("),
        ({"operators": {"lstm": yes}}, "operators={'lstm': Claim(answer='yes', reason='')}): expected northbridge.no("),
        ({"operators": {"asin": 3e-4}}, "operators={'asin': 0.0003}): expected northbridge.no('the reason') or"),
    ],
)
def test_what_is_not_a_claim_is_told(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError) as error:
        Capabilities(**wrong)

    assert str(error.value).startswith(f"Capabilities({words}")


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
    assert Card().module is torch.cpu
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


def test_lacking_function_is_told_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the vendor's module raises passes."""
    failing = SimpleNamespace(device_count=Mock(side_effect=OSError("the card fell off the bus")))
    monkeypatch.setattr(torch, "get_device_module", lambda kind: failing)

    with pytest.raises(OSError, match="fell off the bus"):
        Card().count()
    with pytest.raises(northbridge.UnsupportedError) as refusal:
        Card().random_state()

    assert refusal.value.capability == "get_rng_state"
    assert str(refusal.value) == (
        "torch.cpu has no get_rng_state. Fix: upgrade the vendor's software, or override its caller in Card"
    )
