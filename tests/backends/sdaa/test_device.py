"""The device: what it counts, what it can do under which variables, and what it does not ask the vendor."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
import torch

import northbridge
from northbridge.discovery.present import detect
from northbridge_sdaa.cards import Row, Table, standing


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


@pytest.mark.parametrize("printed", [None, ""], ids=["there is none", "its table has no rows"])
@pytest.mark.usefixtures("nothing_read")
def test_without_a_table_a_device_is_a_core_group(
    device: northbridge.Device, monkeypatch: pytest.MonkeyPatch, printed: str | None
) -> None:
    answers = iter([printed, "never asked for"])
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


# Both forms of teco-smi's table

# Laid out as the vendor's pages and users' reports show it; numbers and places are our own.
BY_CARD = """\
Mon Aug 31 18:04:46 2026
+-----------------------------------------------------------------------------+
|  TECO-SMI: 1.15.0        SDAADriver: 3.2.0        SDAARuntime: 3.2.1b0      |
|-------------------------------+----------------------+----------------------|
| Index  Name                   | Bus-Id               | Health      SPE-Util |
|        Temp          Pwr Usage|          Memory-Usage|                      |
|=============================================================================|
|   0    TECO_AICARD_01         | 00000000:0C:00.0     | OK                0% |
|        40C                90W |        0MB / 65536MB |                      |
|-------------------------------+----------------------+----------------------|
|   1    TECO_AICARD_01         | 00000000:10:00.0     | HEARTBEAT_ERROR  N/A |
|        N/A                N/A |                  N/A |                      |
+-------------------------------+----------------------+----------------------+
| Processes:                                                                  |
|  Device       PID      Process name                            Memory Usage |
|=============================================================================|
| No Process Running                                                          |
+-----------------------------------------------------------------------------+
"""
BY_GROUP = """\
|  TCML: 1.10.0        SDAADriver: 1.1.2b1        SDAARuntime: 1.1.2b0        |
|=============================================================================|
{rows}
| Processes:                                                                  |
|  Tcaicard     PID      Process name                            Memory Usage |
|     1       76262      python3.8                                     165 MB |
|     3       76264      /opt/my python                                165 MB |
""".format(
    rows="\n".join(
        f"|   {row}    TECO_AICARD_01         | 00000000:0{1 + row // 3}:00.0     | OK                   |\n"
        "|        35C                90W |      165MB / 15296MB |                   0% |"
        for row in range(6)
    )
)


@pytest.mark.shows("teco-smi rows", "teco-smi shows SPE-Util N/A where the card is lost")
def test_versions_rows_and_a_sick_card_are_read() -> None:
    table = Table.parse(BY_CARD)

    assert table.versions == {"TECO-SMI": "1.15.0", "SDAADriver": "3.2.0", "SDAARuntime": "3.2.1b0"}
    assert table.rows == (
        Row(0, "TECO_AICARD_01", "00000000:0C:00.0", "OK", "0MB / 65536MB"),
        Row(1, "TECO_AICARD_01", "00000000:10:00.0", "HEARTBEAT_ERROR", None),
    )
    assert table.processes == ()


@pytest.mark.shows("teco-smi process rows")
def test_processes_are_read_with_the_row_that_they_use() -> None:
    assert Table.parse(BY_GROUP).processes == (
        "76262: row 1, python3.8, 165 MB",
        "76264: row 3, /opt/my python, 165 MB",
    )


@pytest.mark.parametrize("text", ["", "no such table", "|   0   |\n| x |", BY_CARD.replace("|", "!")])
def test_what_is_not_understood_is_left_out(text: str) -> None:
    table = Table.parse(text)

    assert (table.rows, table.processes) == ((), ())
    assert table.count_cards([0], total=4) is None


@pytest.mark.shows("teco-smi rows of one card share a Bus-Id", "cards of three core groups exist")
@pytest.mark.parametrize(
    ("text", "devices", "total", "cards"),
    [
        pytest.param(BY_GROUP, [0, 1, 2], 6, 1, id="a row is a core group"),
        pytest.param(BY_GROUP, [2, 3], 6, 2, id="core groups of two cards"),
        pytest.param(BY_GROUP, [6], 7, None, id="a device that no row is of"),
        pytest.param(BY_CARD, range(8), 8, 2, id="a row is a card"),
        pytest.param(BY_CARD, [3], 8, 1, id="a quarter of a card"),
        pytest.param(BY_CARD, [2, 3], 6, 2, id="cards of three core groups"),
        pytest.param(BY_CARD, [0], 7, None, id="cards that are not alike"),
        pytest.param(BY_CARD, [], 8, 0, id="no device"),
    ],
)
def test_cards_are_counted_by_their_places_on_the_bus(
    text: str, devices: list[int], total: int, cards: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SDAA_VISIBLE_DEVICES", raising=False)

    assert Table.parse(text).count_cards(devices, total) == cards


@pytest.mark.parametrize(("text", "cards"), [(BY_GROUP, 2), (BY_CARD, None)], ids=["core groups", "cards"])
def test_renumbered_devices_are_looked_up(text: str, cards: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDAA_VISIBLE_DEVICES", "5,0")

    assert Table.parse(text).count_cards([0, 1], total=2) == cards
