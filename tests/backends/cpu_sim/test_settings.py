from __future__ import annotations

from pathlib import Path

import pytest

from northbridge import SettingsError
from northbridge_cpu_sim.settings import SimSettings


def test_the_chip_has_8_devices_of_16_gib_unless_asked_otherwise() -> None:
    settings = SimSettings.read({})

    assert (settings.devices, settings.memory) == (8, 16 * 2**30)
    assert settings.name == "Northbridge simulated chip"
    assert not settings.one_per_process
    assert settings.cache is None
    assert settings.record is None
    assert settings.faults == ""


def test_the_chip_is_not_strict_unless_asked() -> None:
    settings = SimSettings.read({})

    assert (settings.streams, settings.fresh, settings.freed, settings.errors) == (
        "immediate",
        "any",
        "any",
        "immediate",
    )
    assert not settings.check_collectives


def test_the_chip_rounds_as_the_cpu_unless_asked() -> None:
    settings = SimSettings.read({})

    assert (settings.products, settings.accumulation, settings.order, settings.denormals) == (
        "float32",
        "float32",
        "cpu",
        "kept",
    )


def test_products_reject_an_unknown_rounding() -> None:
    with pytest.raises(SettingsError, match=r"PRODUCTS='float16' is not float32 or tf32\. Fix: correct or unset it"):
        SimSettings.read({"NORTHBRIDGE_CPU_SIM_PRODUCTS": "float16"})


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MiB", 2**29),
        ("16 GiB", 2**34),
        ("1GB", 10**9),
        ("1048576", 2**20),
        ("1.5gib", 3 * 2**29),
    ],
)
def test_memory_is_a_size_in_bytes_or_with_a_unit(text: str, size: int) -> None:
    assert SimSettings.read({"NORTHBRIDGE_CPU_SIM_MEMORY": text}).memory == size


@pytest.mark.parametrize("text", ["1023KiB", "16GiB each", "1,5GiB", "-1", "much", "2PiB", "2e9"])
def test_memory_refuses_what_is_too_small_too_large_or_no_size(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        SimSettings.read({"NORTHBRIDGE_CPU_SIM_MEMORY": text})

    assert str(caught.value) == (
        f"NORTHBRIDGE_CPU_SIM_MEMORY={text!r} is not the size of one device's memory, from "
        "1MiB to 1PiB, such as 512MiB or 16GiB. Fix: correct or unset it (default: 16.0GiB)"
    )


@pytest.mark.parametrize("text", ["many", "0", "65"])
def test_devices_are_1_to_64(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        SimSettings.read({"NORTHBRIDGE_CPU_SIM_DEVICES": text})

    assert str(caught.value) == (
        f"NORTHBRIDGE_CPU_SIM_DEVICES={text!r} is not a whole number from 1 to 64. Fix: correct or unset it"
        " (default: 8)"
    )


def test_misspelt_variable_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"did you mean NORTHBRIDGE_CPU_SIM_DEVICES\?"):
        SimSettings.read({"NORTHBRIDGE_CPU_SIM_DEVICE": "2"})


@pytest.mark.parametrize(("text", "value"), [("1", True), ("true", True), ("0", False)])
def test_one_per_process_is_a_switch(text: str, value: bool) -> None:
    assert SimSettings.read({"NORTHBRIDGE_CPU_SIM_ONE_PER_PROCESS": text}).one_per_process is value


def test_one_per_process_refuses_what_is_not_a_switch() -> None:
    with pytest.raises(SettingsError, match=r"PROCESS='maybe' is not 1 or 0"):
        SimSettings.read({"NORTHBRIDGE_CPU_SIM_ONE_PER_PROCESS": "maybe"})


@pytest.mark.parametrize("text", ["a\tb", "x" * 101])
def test_a_name_that_cannot_be_shown_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="a name of 1 to 100 printable ASCII characters"):
        SimSettings.read({"NORTHBRIDGE_CPU_SIM_NAME": text})


@pytest.mark.parametrize("field", ["cache", "record"])
def test_a_folder_may_start_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, field: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    settings = SimSettings.read({SimSettings.variable(field): "~/chips"})

    assert getattr(settings, field) == tmp_path / "chips"


@pytest.mark.parametrize("field", ["cache", "record"])
@pytest.mark.parametrize("text", ["chips", "./chips", "~nobody-of-this-name/chips"])
def test_a_folder_that_depends_on_where_one_stands_is_refused(text: str, field: str) -> None:
    with pytest.raises(SettingsError, match=r"is not the absolute path of (a|the) folder"):
        SimSettings.read({SimSettings.variable(field): text})
