from __future__ import annotations

import pytest
from lightning.pytorch import Trainer
from tests.core.lightning.conftest import refusal

from northbridge.errors import DevicesError
from northbridge.lightning.accelerators.device_indices import parse_devices


@pytest.mark.parametrize(
    ("devices", "indices"),
    [
        (1, [0]),
        (2, [0, 1]),
        ("2", [0, 1]),
        (" 2 ", [0, 1]),
        (3, [0, 1, 2]),
        (-1, [0, 1, 2]),
        ("-1", [0, 1, 2]),
        ("auto", [0, 1, 2]),
        ([1], [1]),
        ([2, 0], [2, 0]),
        ((0, 1), [0, 1]),
        ("0,1", [0, 1]),
        ("1,", [1]),
        (" 0 , 2 ", [0, 2]),
    ],
)
def test_each_form_of_devices_is_read_as_by_lightning(devices: object, indices: list[int]) -> None:
    assert parse_devices(devices, count=3, name="acme") == indices


@pytest.mark.parametrize(
    ("devices", "count", "message"),
    [
        (
            4,
            3,
            ("devices=4 asks for 4 devices of 'acme', but this machine has 3 (0 to 2). Fix: ask for fewer"),
        ),
        (
            "2",
            1,
            ("devices='2' asks for 2 devices of 'acme', but this machine has 1 (index 0). Fix: ask for fewer"),
        ),
        (
            [0, 1, 0, 1, 2],
            3,
            "devices=[0, 1, 0, 1, 2] repeats device 0, 1 of 'acme'",
        ),
        ("1,1", 3, "devices='1,1' repeats device 1 of 'acme'"),
        ([0, 3], 3, "devices=[0, 3] names device 3 of 'acme', but this machine has 3 (0 to 2)"),
        ([-1], 3, "devices=[-1] names device -1 of 'acme', but this machine has 3 (0 to 2)"),
        ([1], 1, "devices=[1] names device 1 of 'acme', but this machine has 1 (index 0)"),
    ],
)
def test_devices_that_are_not_there_are_refused_with_what_is(devices: object, count: int, message: str) -> None:
    assert refusal(DevicesError, parse_devices, devices, count=count, name="acme") == message


def test_refusal_of_many_devices_is_short() -> None:
    with pytest.raises(DevicesError) as refusal:
        parse_devices([*range(100_000), *range(50_000)], count=8, name="acme")

    assert str(refusal.value).startswith("devices=[0, 1, 2, ")
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize("devices", [10**5000, [10**5000], [10**5000] * 2], ids=["number", "index", "twice"])
def test_number_that_python_does_not_write(devices: int | list[int]) -> None:
    with pytest.raises(DevicesError, match=r"^devices=… (asks for|names device|repeats device) …"):
        parse_devices(devices, count=8, name="acme")


@pytest.mark.parametrize("devices", [10**9, "1000000000", "1" * 5000])
def test_no_machine_has_as_many_processes(devices: int | str) -> None:
    """Lightning's CPU accelerator would make a device for each of them."""
    with pytest.raises(DevicesError) as refusal:
        Trainer(accelerator="cpu", devices=devices)

    assert str(refusal.value).endswith(
        ": each CPU device is a process, and a machine has at most 4194304. Fix: ask for fewer"
    )
    assert str(refusal.value).startswith("devices=")
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    "devices",
    [0, -2, "0", "-3", True, False, None, 1.0, {0, 1}, [], (), "", ",", "two", "1.5", "0;1", [0, "1"], [True], [0.0]],
)
def test_nonsense_is_refused_with_what_could_be_written(devices: object) -> None:
    said = refusal(DevicesError, parse_devices, devices, count=3, name="acme")

    assert said == (
        f"devices={devices!r} is not a choice of devices of 'acme'. Fix: a number of devices (2), their indices"
        " ([0, 1] or '0,1'), or 'auto' or -1 for all"
    )


@pytest.mark.parametrize("devices", [True, None, 1.0, {0, 1}, [0, "1"], [True], [0.0]])
def test_another_type_is_a_type_error_too(devices: object) -> None:
    with pytest.raises(TypeError, match="is not a choice of devices of 'acme'"):
        parse_devices(devices, count=3, name="acme")


def test_the_refusal_is_a_value_error_too() -> None:
    with pytest.raises(ValueError, match="devices=9"):
        parse_devices(9, count=3, name="acme")
