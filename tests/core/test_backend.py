"""One chip family as one value."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from tests.core.conftest import Install

import northbridge


class Card(northbridge.Device):
    type = "tested"


class CCL(northbridge.Collective):
    name = "tested_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        """Load nothing: these tests declare."""


def make(**parts: Any) -> northbridge.Backend:
    return northbridge.Backend(
        **{"name": "tested", "device": Card(), "collective": CCL(), "bridge": Software(), **parts}
    )


def test_it_claims_nothing_and_speaks_the_first_api_unless_told() -> None:
    backend = make()

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
            for part in ("device", "collective", "bridge", "capabilities", "acceleration")
        ),
        ("device", Card, f"device must be a northbridge.Device, found {Card!r}"),
        ("device", Typeless(), 'Typeless needs type = "…"'),
        ("collective", Nameless(), 'Nameless needs name = "…"'),
    ],
    ids=repr,
)
def test_a_part_of_another_kind_is_refused_by_its_name(part: str, value: object, told: str) -> None:
    with pytest.raises(TypeError) as caught:
        make(**{part: value})

    assert str(caught.value) == f"Backend('tested', …): {told}"


def test_cards_abilities_are_its_claims_corrected() -> None:
    class FirstGeneration(Card):
        def capabilities(self, claimed: northbridge.Capabilities) -> northbridge.Capabilities:
            return replace(claimed, float16=northbridge.no("the first generation has none"))

    backend = make(
        device=FirstGeneration(),
        capabilities=northbridge.Capabilities(bfloat16=northbridge.yes, float16=northbridge.yes),
    )

    present = backend.present_capabilities()

    assert (present.bfloat16, present.float16.reason) == (northbridge.yes, "the first generation has none")
    assert backend.capabilities.float16 == northbridge.yes


def test_what_crosses_is_found_anew_on_the_other_side(install: Install) -> None:
    sent = install("acme").python("import pickle, northbridge, sys; print(pickle.dumps(northbridge.get('acme')))")

    name = install("acme").python(f"import pickle; print(pickle.loads({sent.stdout.strip()}).device.type)")

    assert (name.stdout, name.stderr) == ("acme\n", "")


def test_the_defaults_leave_a_plugin_one_method_to_write() -> None:
    abstract = {
        kind.__name__: sorted(kind.__abstractmethods__)
        for kind in (northbridge.Device, northbridge.Collective, northbridge.Bridge)
    }

    assert abstract == {"Device": [], "Collective": [], "Bridge": ["load"]}


INTERFACES = {northbridge.Device: 16, northbridge.Collective: 16, northbridge.Bridge: 16, northbridge.Acceleration: 12}


@pytest.mark.parametrize("kind", INTERFACES)
def test_an_interface_has_few_methods(kind: type[object]) -> None:
    methods = [name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")]

    assert 0 < len(methods) <= INTERFACES[kind]
