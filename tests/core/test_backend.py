"""One chip family as one value."""

from __future__ import annotations

import pickle
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


def test_its_bridge_knows_its_name() -> None:
    assert make().bridge.backend == "tested"


@pytest.mark.parametrize("part", ["device", "collective", "bridge", "capabilities", "acceleration"])
def test_a_part_of_another_kind_is_refused_by_its_name(part: str) -> None:
    with pytest.raises(TypeError) as caught:
        make(**{part: "nonsense"})

    assert str(caught.value) == (
        f"Backend('tested', …): {part} must be a northbridge.{part.capitalize()}, found 'nonsense'"
    )


def test_a_class_where_an_instance_belongs_is_refused() -> None:
    with pytest.raises(TypeError, match=r"device must be a northbridge\.Device, found <class .*Card'>"):
        make(device=Card)


def test_it_cannot_be_changed_afterwards() -> None:
    with pytest.raises(FrozenInstanceError):
        make().name = "another"  # type: ignore[misc]  # the point of the test


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


def test_it_crosses_a_process_boundary_as_its_name(install_here: Install) -> None:
    install_here("acme")
    backend = northbridge.get("acme")

    pickled = pickle.dumps(backend)

    assert b"AcmeDevice" not in pickled
    assert pickle.loads(pickled) is backend


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


def test_a_device_without_a_type_is_refused_where_it_is_declared() -> None:
    class Nameless(northbridge.Device): ...

    with pytest.raises(TypeError) as caught:
        make(device=Nameless())

    assert str(caught.value) == "Backend('tested', …): Nameless needs type = \"…\""


def test_collective_without_a_name_is_refused() -> None:
    class Nameless(northbridge.Collective): ...

    with pytest.raises(TypeError, match=r"Nameless needs name ="):
        make(collective=Nameless())
