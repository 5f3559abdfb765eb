"""The bridge and its settings: which torch there is, the cards that xpu-smi lists, variables that choose devices."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch

import northbridge
from northbridge_xpu import bridge as module
from northbridge_xpu.cards import cards
from northbridge_xpu.settings import XPUSettings

CARD = {"device_name": "Intel(R) Data Center GPU Max 1550", "pci_bdf_address": "0000:18:00.0"}
SIX = json.dumps({"device_list": [{**CARD, "device_id": each} for each in range(6)]})


@pytest.fixture
def bridge() -> northbridge.Bridge:
    return northbridge.get("xpu").bridge


@pytest.fixture
def xpu_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What the command prints; it is the first of its name in PATH."""
    said, command = tmp_path / "said", tmp_path / "xpu-smi"
    command.write_text(f'#!/bin/sh\ntest "$*" = "discovery -j" && cat {said}\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    cards.cache_clear()
    yield said
    cards.cache_clear()


class TestMissing:
    """Whether torch was built for Intel's GPUs."""

    @pytest.mark.parametrize(("library", "built"), [("libc10_xpu.so", True), ("c10_xpu.dll", True), ("c10.so", False)])
    def test_it_is_told_before_torch_is_imported(
        self, bridge: northbridge.Bridge, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: str, built: bool
    ) -> None:
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / library).touch()
        spec = ModuleSpec("torch", None, origin=str(tmp_path / "__init__.py"))
        monkeypatch.setattr(module, "find_spec", lambda _name: spec)
        monkeypatch.delitem(sys.modules, "torch")

        assert (bridge.missing() is None) == built

    def test_an_imported_torch_is_asked(self, bridge: northbridge.Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
        for built in (True, False):
            monkeypatch.setattr(torch.xpu, "_is_compiled", lambda built=built: built)
            assert (bridge.missing() is None) == built

    def test_both_ways_agree_on_the_installed_torch(
        self, bridge: northbridge.Bridge, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = bridge.missing()
        monkeypatch.delitem(sys.modules, "torch")

        assert bridge.missing() == asked


class TestCards:
    @pytest.mark.parametrize(
        ("devices", "total", "count"),
        [([0, 1], 12, 1), ([0, 2, 4], 12, 3), (range(12), 12, 6), ([0, 1], 6, 2), ([0], 7, None)],
    )
    def test_tiles_lie_on_cards_one_after_another(
        self, bridge: northbridge.Bridge, xpu_smi: Path, devices: range, total: int, count: int | None
    ) -> None:
        xpu_smi.write_text(SIX)

        assert bridge.count_cards(devices, total=total) == count

    def test_a_mask_does_not_tell_the_tiles_of_a_card(
        self, bridge: northbridge.Bridge, xpu_smi: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        xpu_smi.write_text(SIX)
        monkeypatch.setenv("ZE_AFFINITY_MASK", "0,1,2,3,4,5")

        assert bridge.count_cards([0, 1], total=6) is None

    def test_the_doctor_shows_what_the_tool_lists(self, bridge: northbridge.Bridge, xpu_smi: Path) -> None:
        xpu_smi.write_text(SIX)

        shown = bridge.describe_machine()["cards"]

        assert isinstance(shown, list)
        assert (len(shown), shown[5]) == (6, {**CARD, "device_id": 5})

    @pytest.mark.parametrize("text", ["", "No device discovered", "[]", '{"error": "no driver"}'])
    def test_output_of_another_form_is_an_error(self, bridge: northbridge.Bridge, xpu_smi: Path, text: str) -> None:
        xpu_smi.write_text(text)

        with pytest.raises(northbridge.DetectionError) as refused:
            bridge.describe_machine()

        assert str(refused.value) == f"`xpu-smi discovery -j` printed no device_list: {text!r}. Fix: upgrade it"

    def test_a_machine_without_the_tool_says_so(
        self, bridge: northbridge.Bridge, xpu_smi: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", "/usr/bin:/bin")

        assert bridge.describe_machine() == {"cards": "unknown: xpu-smi is not installed"}
        assert bridge.count_cards([0, 1], total=2) is None


def test_variables_do_not_matter_to_another_torch(bridge: northbridge.Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZE_AFFINITY_MASK", "0,1")
    monkeypatch.setattr(torch.xpu, "_is_compiled", lambda: False)

    bridge.check_count(0)

    monkeypatch.setattr(torch.xpu, "_is_compiled", lambda: True)
    with pytest.raises(northbridge.SettingsError, match=r"names 2 devices; torch\.xpu counts 0"):
        bridge.check_count(0)


FLAT, COMPOSITE = "FLAT", "COMPOSITE"


@pytest.mark.parametrize("text", ["gpu", "-1", "0;1", "0.0.1", "0,,1"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(northbridge.SettingsError, match=r"is not a list of devices, such as 0,1. Fix: "):
        XPUSettings.read({"ZE_AFFINITY_MASK": text})


def test_a_hierarchy_is_one_of_three() -> None:
    with pytest.raises(northbridge.SettingsError) as refused:
        XPUSettings.read({"ZE_FLAT_DEVICE_HIERARCHY": "flat"})

    assert str(refused.value) == (
        "ZE_FLAT_DEVICE_HIERARCHY='flat' is not FLAT or COMBINED (a device is a tile), or COMPOSITE (a device is a"
        " card). Fix: correct or unset it (default: FLAT)"
    )


@pytest.mark.parametrize(
    ("hierarchy", "mask", "count"),
    [
        (FLAT, "0,1,5", 3),
        (FLAT, "0, 1", 2),
        (FLAT, "1,1", 1),
        ("COMBINED", "0,1", 2),
        (COMPOSITE, "0.0,0.1", 1),
        (COMPOSITE, "0.1,1.0,1.1", 2),
        (COMPOSITE, "0,2", 2),
    ],
)
def test_a_mask_shows_as_many_devices(hierarchy: str, mask: str, count: int) -> None:
    settings = XPUSettings.read({"ZE_FLAT_DEVICE_HIERARCHY": hierarchy, "ZE_AFFINITY_MASK": mask})

    assert settings.ze_affinity_mask == mask
    settings.reject_absent(count)
    with pytest.raises(northbridge.SettingsError) as refused:
        settings.reject_absent(count - 1)

    assert str(refused.value) == (
        f"ZE_AFFINITY_MASK={mask!r} names {count} devices; torch.xpu counts {count - 1}. Fix: see xpu-smi discovery"
    )


def test_a_selector_that_hides_every_device_is_named() -> None:
    settings = XPUSettings.read({"ONEAPI_DEVICE_SELECTOR": "opencl:cpu"})

    settings.reject_absent(1)
    with pytest.raises(northbridge.SettingsError) as refused:
        settings.reject_absent(0)

    assert refused.value.variable == "ONEAPI_DEVICE_SELECTOR"
    assert str(refused.value) == "ONEAPI_DEVICE_SELECTOR='opencl:cpu' leaves torch.xpu no device. Fix: unset it"
    XPUSettings.read({}).reject_absent(0)  # without variables any count is right
