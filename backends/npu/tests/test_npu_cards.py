"""The table of ``npu-smi info``."""

from __future__ import annotations

import pytest

import northbridge
from northbridge_npu import cards
from northbridge_npu.cards import Chip, Table

# Laid out as users' reports show it; numbers and places are our own.
ONE_EACH = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc1                 Version: 24.1.rc1                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 86.8        35                0    / 0             |
| 0                         | 0000:66:00.0  | 0           0    / 0          59356/ 65536         |
+===========================+===============+====================================================+
| 4     910B3               | Warning       | 103.1       37                0    / 0             |
| 0                         | 0000:19:00.0  | 0           0    / 0          3351 / 65536         |
+===========================+===============+====================================================+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 1712733       | python train.py          | 55899                   |
| No running processes found in NPU 4                                                            |
"""
TWO_EACH = """\
| npu-smi 24.1.rc3.7               Version: 24.1.rc3.7                                           |
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
| 0     Ascend910           | OK            | 178.5       36                0    / 0             |
| 0     0                   | 0000:9D:00.0  | 0           0    / 0          3416 / 65536         |
+------------------------------------------------------------------------------------------------+
| 0     Ascend910           | OK            | -           36                0    / 0             |
| 1     1                   | 0000:9F:00.0  | 0           0    / 0          3195 / 65536         |
| 1     Ascend910           | OK            | 186.3       36                0    / 0             |
| 0     2                   | 0000:99:00.0  | 0           0    / 0          3415 / 65536         |
"""


def test_versions_chips_and_processes_are_read() -> None:
    table = Table.parse(ONE_EACH)

    assert table.version == "24.1.rc1"
    assert table.chips == (
        Chip(0, 0, "910B3", "OK", "0000:66:00.0", "59356/65536"),
        Chip(4, 0, "910B3", "Warning", "0000:19:00.0", "3351/65536"),
    )
    assert table.processes == ("1712733: NPU 0 chip 0, python train.py, 55899 MB",)


def test_a_card_of_two_npus_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table.parse(TWO_EACH)

    assert [(each.card, each.chip) for each in table.chips] == [(0, 0), (0, 1), (1, 0)]
    monkeypatch.setattr(cards, "standing", lambda: table)
    count_cards = northbridge.get("npu").bridge.count_cards
    assert count_cards([0, 1], total=3) == 1
    assert count_cards([0, 2], total=3) == 2
    assert count_cards([0], total=8) is None  # the table shows other chips than torch counts
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "1,2")
    assert count_cards([0, 1], total=2) == 2


@pytest.mark.parametrize("text", ["", "no such table", "|   0   |\n| x |", ONE_EACH.replace("|", "!")])
def test_other_text_is_left_out(text: str) -> None:
    assert Table.parse(text) == Table(None, (), ())


@pytest.mark.parametrize(
    ("name", "denied"),
    [("910B3", False), ("910B2C", False), ("Ascend910", False), ("910B", True), ("910ProB", True), ("310P3", True)],
)
def test_bfloat16_is_denied_for_cards_before_the_910b1(
    name: str, denied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.parse(ONE_EACH.replace("910B3", name))
    monkeypatch.setattr("northbridge_npu.device.standing", lambda: table)
    backend = northbridge.get("npu")

    claim = backend.device.capabilities(backend.capabilities).bfloat16

    assert claim.denied == denied
    assert claim.reason == (
        f"a {name} computes in float16 and float32 alone; 910B1 and later have it" if denied else ""
    )


def test_a_machine_without_the_tool_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(northbridge, "run_tool", lambda *_, **__: None)
    cards.standing.cache_clear()
    bridge = northbridge.get("npu").bridge

    assert bridge.describe_machine() == {"cards": "unknown: npu-smi is not installed"}
    assert bridge.count_cards([0], total=8) is None
    cards.standing.cache_clear()


def test_the_doctor_gets_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def run_tool(*command: str, **_: object) -> str:
        asked.append(command)
        return TWO_EACH

    monkeypatch.setattr(northbridge, "run_tool", run_tool)

    described = northbridge.get("npu").bridge.describe_machine()

    assert asked == [("npu-smi", "info")]
    assert (described["npu-smi"], described["cards"]) == ("24.1.rc3.7", 2)
