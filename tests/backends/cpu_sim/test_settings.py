from __future__ import annotations

from pathlib import Path

import pytest

from northbridge import SettingsError
from northbridge_cpu_sim.settings import SimSettings


def test_the_chip_has_8_devices_of_16_gib_and_is_not_strict() -> None:
    settings = SimSettings.read({})

    assert (settings.devices, settings.memory) == (8, 16 * 2**30)
    assert settings.name == "Northbridge simulated chip"
    assert (settings.one_per_process, settings.check_collectives) == (False, False)
    assert (settings.cache, settings.record, settings.faults) == (None, None, "")
    strict = settings.streams, settings.fresh, settings.freed, settings.errors
    assert strict == ("immediate", "any", "any", "immediate")
    rounding = settings.products, settings.accumulation, settings.order, settings.denormals
    assert rounding == ("float32", "float32", "cpu", "kept")


@pytest.mark.parametrize(("text", "size"), [("512MiB", 2**29), ("16 GiB", 2**34), ("1048576", 2**20)])
def test_memory_is_a_size_in_bytes_or_with_a_unit(text: str, size: int) -> None:
    assert SimSettings.read({"NORTHBRIDGE_CPU_SIM_MEMORY": text}).memory == size


MEMORY = (
    "MEMORY={!r} is not the size of one device's memory, from 1MiB to 1PiB, such as 512MiB or 16GiB. Fix: correct or"
    " unset it (default: 16.0GiB)"
)
DEVICES = "DEVICES={!r} is not a whole number from 1 to 64. Fix: correct or unset it (default: 8)"


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        *(("MEMORY", text, MEMORY) for text in ("1023KiB", "16GiB each", "1,5GiB", "2PiB")),
        *(("DEVICES", text, DEVICES) for text in ("0", "65")),
        ("DEVICE", "2", "did you mean NORTHBRIDGE_CPU_SIM_DEVICES?"),
        ("PRODUCTS", "float16", "PRODUCTS='float16' is not float32 or tf32. Fix: correct or unset it"),
        ("ONE_PER_PROCESS", "maybe", "PROCESS='maybe' is not 1 or 0"),
        ("NAME", "a\tb", "a name of 1 to 100 printable ASCII characters"),
        ("NAME", "x" * 101, "a name of 1 to 100 printable ASCII characters"),
    ],
)
def test_value_of_another_kind_is_refused(variable: str, text: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        SimSettings.read({f"NORTHBRIDGE_CPU_SIM_{variable}": text})

    assert said.format(text) in str(caught.value)
    assert variable not in ("MEMORY", "DEVICES") or str(caught.value) == f"NORTHBRIDGE_CPU_SIM_{said.format(text)}"


@pytest.mark.parametrize("field", ["cache", "record"])
def test_a_folder_may_start_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, field: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    settings = SimSettings.read({SimSettings.variable(field): "~/chips"})

    assert getattr(settings, field) == tmp_path / "chips"


@pytest.mark.parametrize("field", ["cache", "record"])
@pytest.mark.parametrize("text", ["chips", "~nobody-of-this-name/chips"])
def test_a_folder_that_depends_on_where_one_stands_is_refused(text: str, field: str) -> None:
    with pytest.raises(SettingsError, match=r"is not the absolute path of (a|the) folder"):
        SimSettings.read({SimSettings.variable(field): text})
