"""Parsing of both forms of teco-smi's table."""

from __future__ import annotations

import pytest

from northbridge_sdaa.cards import Row, Table

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
|   0    TECO_AICARD_01         | 00000000:01:00.0     | OK                   |
|        35C                90W |        0MB / 15296MB |                   0% |
|   1    TECO_AICARD_01         | 00000000:01:00.0     | OK                   |
|        35C                90W |      165MB / 15296MB |                   0% |
|   2    TECO_AICARD_01         | 00000000:01:00.0     | OK                   |
|        35C                90W |      165MB / 15296MB |                   0% |
|   3    TECO_AICARD_01         | 00000000:02:00.0     | OK                   |
|        35C                90W |      165MB / 15296MB |                   0% |
|   4    TECO_AICARD_01         | 00000000:02:00.0     | OK                   |
|        35C                90W |      165MB / 15296MB |                   0% |
|   5    TECO_AICARD_01         | 00000000:02:00.0     | OK                   |
|        35C                90W |      165MB / 15296MB |                   0% |
| Processes:                                                                  |
|  Tcaicard     PID      Process name                            Memory Usage |
|     1       76262      python3.8                                     165 MB |
|     3       76264      /opt/my python                                165 MB |
"""


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


@pytest.mark.parametrize(
    ("text", "cards"),
    [pytest.param(BY_GROUP, 2, id="a row is a core group"), pytest.param(BY_CARD, None, id="a row is a card")],
)
def test_renumbered_devices_are_looked_up(text: str, cards: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDAA_VISIBLE_DEVICES", "5,0")

    assert Table.parse(text).count_cards([0, 1], total=2) == cards
