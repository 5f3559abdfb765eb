"""The variables of Intel's runtimes, and what torch counts under them."""

from __future__ import annotations

import pytest

import northbridge
from northbridge_xpu.settings import XPUSettings

FLAT, COMPOSITE = "FLAT", "COMPOSITE"


@pytest.mark.parametrize("text", ["0", "0,1", "0, 1", "0.0,0.1", "11"])
def test_a_list_of_devices_is_a_mask(text: str) -> None:
    assert XPUSettings.read({"ZE_AFFINITY_MASK": text}).ze_affinity_mask == text


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


def test_without_variables_any_count_is_right() -> None:
    XPUSettings.read({}).reject_absent(0)
    XPUSettings.read({}).reject_absent(12)
