"""How many devices a backend says that this machine has."""

from __future__ import annotations

from typing import Any, ClassVar

from northbridge.conformance.tests.plugin.plugin_suite import HEAVY, PluginSuite, is_refused_for_lack


class Detection(PluginSuite):
    """The backend counts its devices without being loaded, and counts as many afterwards."""

    advice: ClassVar[str] = (
        "Bridge.detect(), which has to answer with a number on every machine, also on one without driver, card or"
        " software; Device.count(); and is_available() and device_count() of the vendor's torch module"
    )

    def test_it_answers_with_a_number_where_the_software_is_installed(self, detected: dict[str, Any]) -> None:
        number, again = detected["detected"]

        if detected["installed"]:
            assert isinstance(number, int), number
        else:
            # A word of ours is as good: there is nothing to run on.
            assert isinstance(number, int) or number.startswith("SoftwareMissingError: "), number
        assert again == number

    def test_it_brings_neither_torch_nor_the_vendors_package_into_this_process(
        self, detected: dict[str, Any], declared: dict[str, Any]
    ) -> None:
        assert not set(detected["modules"]) & (HEAVY | {(declared["package"] or "").partition(".")[0]})

    def test_it_is_available_where_devices_are(self, backend: str, detected: dict[str, Any]) -> None:
        number = detected["detected"][0]

        assert detected["available"].get(backend, 0) == (number if isinstance(number, int) else 0)

    def test_the_loaded_device_counts_as_many(self, loaded: dict[str, Any], detected: dict[str, Any]) -> None:
        if not is_refused_for_lack(loaded, detected):
            for look in loaded["looks"]:
                assert look["count"] == repr(detected["detected"][0])

    def test_the_vendors_module_is_available_where_devices_are(
        self, loaded: dict[str, Any], detected: dict[str, Any]
    ) -> None:
        if not is_refused_for_lack(loaded, detected):
            expected = repr(bool(detected["detected"][0]))
            assert loaded["is available"] in (expected, "it does not say")
