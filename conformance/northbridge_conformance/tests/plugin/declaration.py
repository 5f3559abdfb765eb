"""The declaration of a plugin and its chip, before any of the vendor's software is loaded, and level C0's fixtures."""

from __future__ import annotations

import re
from ast import literal_eval
from importlib.util import find_spec
from typing import Any

from packaging.version import Version

import northbridge
from northbridge.capabilities import FACTS
from northbridge.discovery.installed import LIGHTNING_NAMES, is_wellformed
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.runs.question import Answer, ask
from northbridge_conformance.suite import TRAINERS, Suite
from northbridge_conformance.tests.device.claimed_operators import reject_unknown_operators

HEAVY = frozenset({"torch", "lightning", "pytorch_lightning", "lightning_fabric"})
"""Modules that a plugin does not need for its import or for the detection of its devices."""

ALONE = ("0", "1")
"""The rank and the number of ranks, as arguments of a question."""


class PluginSuite(Suite):
    """Tests that run the plugin's code in separate processes, without the chip or the vendor's software."""

    @pytest.fixture
    def plugin(self, backend: str) -> northbridge.Plugin:
        """The first plugin that announces the name; there should be only one."""
        found = [plugin for plugin in northbridge.installed() if plugin.name == backend]
        assert found, f"no installed distribution announces {backend!r} in the entry-point group 'northbridge.backends'"
        return found[0]

    @pytest.fixture
    def declared(self, backend: str, environ: dict[str, str]) -> dict[str, Any]:
        """Return the plugin's declaration."""
        return ask("plugin:declare", backend, environ=environ).facts

    @pytest.fixture
    def detected(self, backend: str, environ: dict[str, str]) -> dict[str, Any]:
        """Return the plugin's detection results on this machine."""
        return ask("plugin:detect", backend, environ=environ).facts

    @pytest.fixture
    def loaded(self, backend: str, environ: dict[str, str]) -> dict[str, Any]:
        """Return the state after loading the software, or the error."""
        return ask("software:load", backend, *ALONE, environ=environ).facts


def is_unsupported(loaded: dict[str, Any], detected: dict[str, Any]) -> bool:
    """Return True if the software could not be loaded because this machine lacks it, or the chip.

    Raises :class:`AssertionError` if loading failed although this machine does not lack either.
    """
    if "error" not in loaded:
        return False
    kind, message = loaded["error"]
    lacking = not detected["installed"] or detected["detected"][0] == 0
    assert lacking, f"nothing says that this machine lacks software or chip, and loading ended with {kind}: {message}"
    assert kind in ("SoftwareMissingError", "SoftwareLoadError"), message
    return True


def trainer_namespace() -> str:
    """Return the first installed namespace of Lightning with a Trainer; skip the test if there is none."""
    for namespace in TRAINERS:
        if find_spec(namespace.partition(".")[0]) is not None:
            return namespace
    raise pytest.skip.Exception(f"none of {', '.join(TRAINERS)} is installed")


def tops(answer: Answer) -> set[str]:
    """Return the top-level modules in an answer."""
    return {module.partition(".")[0] for module in answer.facts["modules"]}


class Declaration(PluginSuite):
    """The parts of the backend carry names that torch can take, and capabilities of the right types."""

    advice = (
        "Look at the Backend(…) that the plugin's hook returns: the attribute `type` of its Device, `name` of its"
        " Collective, `package` of its Bridge, and its Capabilities, whose claims are northbridge.yes,"
        " northbridge.no('why') and northbridge.unknown."
    )

    def test_device_type_is_a_valid_torch_name(self, declared: dict[str, Any]) -> None:
        found = literal_eval(declared["type"])

        assert isinstance(found, str)
        assert is_wellformed(found)
        assert found not in ("cpu", "meta", "privateuseone")

    def test_collective_is_a_valid_torch_name(self, declared: dict[str, Any]) -> None:
        found = literal_eval(declared["collective"])

        if found is None:  # the chip has no communication library
            return
        assert isinstance(found, str)
        assert is_wellformed(found)  # torch.distributed writes names in lower case
        assert found not in ("fake", "gloo", "undefined")  # these do not carry a chip's tensors

    def test_vendor_package_is_a_valid_module_name(self, declared: dict[str, Any]) -> None:
        package = declared["package"]

        assert package is None or all(part.isidentifier() for part in package.split("."))

    def test_every_claim_has_a_valid_value(self, declared: dict[str, Any]) -> None:
        found = {name: value for name, value in declared["capabilities"].items() if name not in FACTS}

        assert {name: value for name, value in found.items() if value[0] != "Claim"} == {}
        assert {name: value for name, value in found.items() if value[1] not in ("yes", "no", "unknown")} == {}
        assert {name: value for name, value in found.items() if not isinstance(value[2], str)} == {}

    def test_every_denied_claim_has_a_reason(self, declared: dict[str, Any]) -> None:
        denied = {name: value for name, value in declared["capabilities"].items() if value[1] == "no"}

        assert [name for name, value in denied.items() if not value[2].strip()] == []

    def test_every_operator_is_known_to_torch(self, backend: str, declared: dict[str, Any]) -> None:
        reject_unknown_operators(backend, declared["operators"])

    def test_facts_are_booleans(self, declared: dict[str, Any]) -> None:
        for fact in FACTS:
            assert declared["capabilities"][fact] in (["bool", "True"], ["bool", "False"])

    def test_repeated_declaration_is_the_same(self, declared: dict[str, Any]) -> None:
        assert declared["parts again"]
        assert declared["capabilities again"] == declared["capabilities"]


class PluginMetadata(PluginSuite):
    """One distribution announces the name, and its module declares a backend of that name."""

    advice = (
        "Look at the plugin's pyproject.toml: [project] name and version, and the entry point of the group"
        ' "northbridge.backends"; and at the hook northbridge_backend() of the module that it names.'
    )

    def test_exactly_one_distribution_declares_the_name(self, backend: str) -> None:
        found = [str(plugin) for plugin in northbridge.installed() if plugin.name == backend]

        assert len(found) == 1, f"{backend!r} is announced by {found or 'no distribution'}"

    def test_the_distribution_has_a_name_and_a_version(self, plugin: northbridge.Plugin) -> None:
        assert re.fullmatch(r"[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]", plugin.distribution)
        assert str(Version(plugin.version))

    def test_the_name_is_a_valid_accelerator_name(self, backend: str) -> None:
        assert is_wellformed(backend)
        assert backend not in LIGHTNING_NAMES

    def test_entry_point_names_a_module_without_an_attribute(self, plugin: northbridge.Plugin) -> None:
        assert all(part.isidentifier() for part in plugin.module.split(".")), plugin.module

    def test_the_module_declares_a_backend_of_that_name(self, backend: str, declared: dict[str, Any]) -> None:
        assert declared["name"] == backend

    def test_plugin_is_written_for_this_api_version(self, declared: dict[str, Any]) -> None:
        written_for, spoken_here = declared["api"]

        assert written_for == spoken_here
