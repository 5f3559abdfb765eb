"""The device: what it counts, what it can do under which variables, and what it does not ask the vendor."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
import torch

import northbridge
from northbridge.discovery.present import detect
from northbridge_sdaa.cards import standing


@pytest.fixture
def device(sdaa: ModuleType) -> northbridge.Device:
    return northbridge.get("sdaa").device


@pytest.fixture
def nothing_read() -> Iterator[None]:
    """Let the process know no table of teco-smi's, nor the next test what this one's says."""
    standing.cache_clear()
    yield
    standing.cache_clear()


def claims() -> dict[str, northbridge.Claim]:
    return northbridge.get("sdaa").present_capabilities().claims()


@pytest.mark.shows("one device is a core group (SPA)")
def test_a_variable_that_names_too_many_is_refused(device: northbridge.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    assert device.count() == detect(northbridge.get("sdaa")) == 32
    monkeypatch.setenv("SDAA_VISIBLE_DEVICES", "0,1,99")

    with pytest.raises(northbridge.SettingsError) as caught:
        detect(northbridge.get("sdaa"))

    assert caught.value.variable == "SDAA_VISIBLE_DEVICES"
    assert str(caught.value) == (
        "SDAA_VISIBLE_DEVICES=0,1,99 names 3 core groups; torch.sdaa counts 32. Fix: see teco-smi"
    )


@pytest.mark.parametrize(
    ("environ", "devices", "cards"),
    [
        ({}, 32, 8),
        ({"NORTHBRIDGE_SDAA_SIM_SMI": "1.10"}, 32, 8),
        ({"NORTHBRIDGE_SDAA_SIM_GROUPS": "3", "NORTHBRIDGE_CPU_SIM_DEVICES": "12"}, 12, 4),
        ({"SDAA_VISIBLE_DEVICES": "3,4", "NORTHBRIDGE_SDAA_SIM_SMI": "1.10"}, 2, 2),
        ({"SDAA_VISIBLE_DEVICES": "3,4"}, 2, None),
    ],
    ids=["rows are cards", "rows are core groups", "three to a card", "two of two cards", "two of some"],
)
@pytest.mark.usefixtures("nothing_read")
def test_teco_smi_tells_cards_and_names(
    device: northbridge.Device,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    devices: int,
    cards: int | None,
) -> None:
    for variable, text in environ.items():
        monkeypatch.setenv(variable, text)

    assert northbridge.get("sdaa").bridge.count_cards(range(devices), total=devices) == cards
    assert device.label(0) == "TECO_AICARD_01"


@pytest.mark.usefixtures("nothing_read")
def test_without_teco_smi_a_device_is_a_core_group(device: northbridge.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(northbridge, "run_tool", lambda *_, **__: None)

    assert device.label(0) == "core group of a Teco card"
    assert northbridge.get("sdaa").bridge.count_cards([0], total=32) is None


def test_it_asks_teco_smi_once(device: northbridge.Device, nothing_read: None, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["", "never asked for"])  # a table without rows
    monkeypatch.setattr(northbridge, "run_tool", lambda *_, **__: next(answers))

    assert [device.label(0), device.label(1)] == ["core group of a Teco card"] * 2
    assert northbridge.get("sdaa").bridge.count_cards([0], total=32) is None
    assert next(answers) == "never asked for"


def test_teco_smi_that_has_failed_is_asked_again(
    device: northbridge.Device, nothing_read: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> str:
        raise northbridge.DetectionError("`teco-smi` did not answer", backend="sdaa")

    with monkeypatch.context() as broken:
        broken.setattr(northbridge, "run_tool", fail)
        with pytest.raises(northbridge.DetectionError):
            device.label(0)

    assert device.label(0) == "TECO_AICARD_01"


@pytest.mark.shows("torch.autocast")
def test_autocast_has_both_halves_wherever_it_is_asked(device: northbridge.Device) -> None:
    assert set(device.autocast_dtypes()) == {torch.float16, torch.bfloat16}


@pytest.mark.shows("float32 convolutions are computed in float16")
def test_convolutions_are_exact_if_both_say_so(device: northbridge.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    assert claims()["float32_convolutions"].denied
    monkeypatch.setenv("TORCH_SDAA_CONV_USE_FP32", "1")
    assert claims()["float32_convolutions"].denied
    monkeypatch.setenv("TORCH_SDAA_CONV2D_BACKWARD_USE_FP32", "1")
    assert claims()["float32_convolutions"] == northbridge.yes


@pytest.mark.shows("matrix products of bfloat16 have float16's range")
def test_bfloat16_has_float16s_range_clipped_or_not(
    device: northbridge.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "they are computed in float16, as far as public sources tell, whose numbers end at 65504; "
    assert claims()["bfloat16_range"] == northbridge.no(f"{why}TORCH_SDAA_BF16_CLIP=1 cuts their inputs at 65407")

    monkeypatch.setenv("TORCH_SDAA_BF16_CLIP", "1")

    assert claims()["bfloat16_range"] == northbridge.no(
        f"{why}TORCH_SDAA_BF16_CLIP=1 is set, which cuts their inputs at 65407"
    )


@pytest.mark.shows("no float64 in the vendor's tests' list of dtypes", "no float8")
def test_unproven_abilities_are_denied_or_unknown() -> None:
    said = claims()

    assert said["float8"].answer == "no"
    assert {said[name].answer for name in ("float64", "compile")} == {"unknown"}
    assert all(said[name].reason for name in ("float64", "float8", "compile"))
