"""What a plugin says of its chip before anything is loaded."""

from __future__ import annotations

from ast import literal_eval
from typing import Any, ClassVar

from northbridge.conformance.tests.plugin.plugin_suite import PluginSuite
from northbridge.discovery.installed import is_wellformed

_FACTS = ("simulated", "auto")


class Declaration(PluginSuite):
    """The parts of the backend carry names that torch can take, and capabilities of the right types."""

    advice: ClassVar[str] = (
        "the Backend(…) that the plugin's hook returns: the attribute `type` of its Device, `name` of its Collective,"
        " `package` of its Bridge, and its Capabilities, whose claims are northbridge.yes, northbridge.no('why') and"
        " northbridge.unknown"
    )

    def test_the_device_type_is_one_that_torch_can_take(self, declared: dict[str, Any]) -> None:
        found = literal_eval(declared["type"])

        assert isinstance(found, str)
        assert is_wellformed(found)
        assert found not in ("cpu", "meta", "privateuseone")

    def test_the_collective_is_one_that_torch_can_take(self, declared: dict[str, Any]) -> None:
        found = literal_eval(declared["collective"])

        assert isinstance(found, str)
        assert is_wellformed(found)  # torch.distributed writes names in lower case
        assert found not in ("fake", "gloo", "undefined")  # which carry no chip's tensors

    def test_the_vendors_package_is_a_name_that_can_be_imported(self, declared: dict[str, Any]) -> None:
        package = declared["package"]

        assert package is None or all(part.isidentifier() for part in package.split("."))

    def test_every_claim_is_a_claim(self, declared: dict[str, Any]) -> None:
        found = {name: value for name, value in declared["capabilities"].items() if name not in _FACTS}

        assert {name: value for name, value in found.items() if value[0] != "Claim"} == {}
        assert {name: value for name, value in found.items() if value[1] not in ("yes", "no", "unknown")} == {}
        assert {name: value for name, value in found.items() if not isinstance(value[2], str)} == {}

    def test_whatever_is_denied_has_a_reason(self, declared: dict[str, Any]) -> None:
        denied = {name: value for name, value in declared["capabilities"].items() if value[1] == "no"}

        assert [name for name, value in denied.items() if not value[2].strip()] == []

    def test_whether_it_is_simulated_and_whether_auto_may_pick_it_is_yes_or_no(self, declared: dict[str, Any]) -> None:
        for fact in _FACTS:
            assert declared["capabilities"][fact] in (["bool", "True"], ["bool", "False"])

    def test_it_says_the_same_when_it_is_asked_again(self, declared: dict[str, Any]) -> None:
        assert declared["parts again"]
        assert declared["capabilities again"] == declared["capabilities"]
