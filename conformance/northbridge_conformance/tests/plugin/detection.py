"""Detection of devices, and the errors if the chip or its software is missing."""

from __future__ import annotations

from typing import Any

from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.runs.question import ask
from northbridge_conformance.tests.plugin.declaration import HEAVY, PluginSuite, is_unsupported, trainer_namespace


class MissingSoftware(PluginSuite):
    """Without the vendor's package, every answer is an error of Northbridge that names the package.

    A backend without a package brings its software itself, so nothing is hidden from it: it loads, or says why not.
    """

    advice = (
        "Look at Bridge.package, which has to name the vendor's package; at Bridge.load(), the one place to import it,"
        " which lets ModuleNotFoundError through; and at Bridge.detect() where the package is not installed."
    )

    @pytest.fixture
    def found(self, backend: str, environ: dict[str, str], declared: dict[str, Any]) -> dict[str, Any]:
        """The result of each question without the package: kind of the error and message."""
        package = declared["package"] or ""
        hidden = {"NORTHBRIDGE_SIMULATE": "", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"} if package else {}
        return ask("plugin:miss_software", backend, package, trainer_namespace(), environ={**environ, **hidden}).facts

    def test_backend_is_declared_without_the_software(self, backend: str, found: dict[str, Any]) -> None:
        assert found["declared"] == ["", repr(backend)]

    def test_detection_works_or_says_the_software_is_missing(self, found: dict[str, Any]) -> None:
        kind, said = found["detected"]

        assert kind in ("", "SoftwareMissingError"), said
        assert found["available"][0] == "", found["available"][1]

    def test_load_names_the_missing_package(
        self, backend: str, found: dict[str, Any], declared: dict[str, Any]
    ) -> None:
        kind, said = found["loaded"]

        if declared["package"] is None and kind == "":
            assert said == repr(backend)
        else:
            assert kind in ("SoftwareMissingError", "SoftwareLoadError"), said
            assert repr(backend) in said
            assert (declared["package"] or "").partition(".")[0] in said

    def test_trainer_names_the_missing_package(
        self, backend: str, found: dict[str, Any], declared: dict[str, Any]
    ) -> None:
        if declared["package"] is not None:
            kind, said = found["trainer"]
            assert kind in ("SoftwareMissingError", "SoftwareLoadError"), said
            assert f"accelerator={backend!r}" in said or f"backend {backend!r}" in said
            assert declared["package"].partition(".")[0] in said


class MissingHardware(PluginSuite):
    """Where no device is found, a Trainer says so, or that the software is missing, and does not train on the CPU."""

    advice = (
        "Look at Bridge.detect(), which answers 0 where no device is found, and at whatever the plugin does instead."
    )

    @pytest.fixture
    def found(self, backend: str, environ: dict[str, str]) -> dict[str, Any]:
        """The error of a Trainer, the available backends, and the error of loading if the Trainer found no software."""
        return ask("plugin:miss_hardware", backend, trainer_namespace(), environ=environ).facts

    def test_trainer_reports_missing_hardware_or_software(self, backend: str, found: dict[str, Any]) -> None:
        kind, said = found["trainer"]

        if kind == "SoftwareMissingError":  # a Trainer looks for the software if no device is found
            assert f"backend {backend!r}" in said
            assert found["loaded"][0] == kind, f"loading ended with {found['loaded']}"
        else:
            assert kind == "HardwareMissingError", said
            assert f"accelerator={backend!r}: no hardware" in said

    def test_backend_is_not_available(self, backend: str, found: dict[str, Any]) -> None:
        assert found["detected"] == 0
        assert backend not in found["available"]


class Detection(PluginSuite):
    """The backend counts its devices without being loaded, and counts as many afterwards."""

    advice = (
        "Look at Bridge.detect(), which has to answer with a number on every machine, also on one without driver, card"
        " or software; at Device.count(); and at is_available() and device_count() of the vendor's torch module."
    )

    def test_detect_returns_a_number_if_software_is_installed(self, detected: dict[str, Any]) -> None:
        number, again = detected["detected"]

        if detected["installed"]:
            assert isinstance(number, int), number
        else:
            # An error of Northbridge is fine too: there is nothing to run on.
            assert isinstance(number, int) or number.startswith("SoftwareMissingError: "), number
        assert again == number

    def test_detect_imports_neither_torch_nor_the_vendor_package(
        self, detected: dict[str, Any], declared: dict[str, Any]
    ) -> None:
        assert not set(detected["modules"]) & (HEAVY | {(declared["package"] or "").partition(".")[0]})

    def test_available_devices_are_those_detected(self, backend: str, detected: dict[str, Any]) -> None:
        number = detected["detected"][0]

        assert detected["available"].get(backend, 0) == (number if isinstance(number, int) else 0)

    def test_loaded_device_count_equals_detection(self, loaded: dict[str, Any], detected: dict[str, Any]) -> None:
        if not is_unsupported(loaded, detected):
            for look in loaded["looks"]:
                assert look["count"] == repr(detected["detected"][0])

    def test_is_available_of_the_torch_module_matches_detection(
        self, loaded: dict[str, Any], detected: dict[str, Any]
    ) -> None:
        if not is_unsupported(loaded, detected):
            expected = repr(bool(detected["detected"][0]))
            assert loaded["is available"] in (expected, "it does not say")
