"""The parts of the backend: the table of ``npu-smi info``, the variable that chooses NPUs, and HCCL of Huawei."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import northbridge
from northbridge_npu import cards
from northbridge_npu.cards import Chip, Table
from northbridge_npu.settings import NPUSettings

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


def test_the_doctor_gets_the_table_if_there_is_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge, tools = northbridge.get("npu").bridge, {("npu-smi", "info"): TWO_EACH}
    monkeypatch.setattr(northbridge, "run_tool", lambda *command, **_: tools[command])
    described = bridge.describe_machine()
    assert (described["npu-smi"], described["cards"]) == ("24.1.rc3.7", 2)

    monkeypatch.setattr(northbridge, "run_tool", lambda *_, **__: None)
    cards.standing.cache_clear()
    assert bridge.describe_machine() == {"cards": "unknown: npu-smi is not installed"}
    assert bridge.count_cards([0], total=8) is None
    cards.standing.cache_clear()


NAME = "ASCEND_RT_VISIBLE_DEVICES"


@pytest.mark.parametrize("text", ["0,0", "a", "0;1", "all"])
def test_another_form_than_a_list_is_refused(text: str) -> None:
    assert NPUSettings.read({NAME: "0,2,5"}).ascend_rt_visible_devices == (0, 2, 5)
    assert NPUSettings.read({}).ascend_rt_visible_devices is None
    with pytest.raises(northbridge.SettingsError) as refusal:
        NPUSettings.read({NAME: text})

    assert str(refusal.value) == (
        f"{NAME}={text!r} is not a list of NPUs in ascending order, each once, with commas between, such as 0,1,2,3."
        " Fix: correct or unset it"
    )


def test_a_list_out_of_order_or_of_absent_npus_is_refused() -> None:
    with pytest.raises(northbridge.SettingsError) as refusal:
        NPUSettings.read({NAME: "2,0"}).reject_disorder()
    assert str(refusal.value) == f"{NAME}=2,0 is not in ascending order. Fix: write 0,2"
    assert refusal.value.variable == NAME

    NPUSettings.read({NAME: "0,1,9"}).reject_absent(3)
    with pytest.raises(northbridge.SettingsError) as refusal:
        NPUSettings.read({NAME: "0,1,9"}).reject_absent(2)
    assert str(refusal.value) == f"{NAME}=0,1,9 names 3 NPUs; torch.npu counts 2. Fix: see npu-smi info"


@pytest.fixture
def collective() -> northbridge.Collective:
    return northbridge.get("npu").require_collective()


def test_dtypes_travel_and_are_reduced_as_the_source_says(collective: northbridge.Collective) -> None:
    assert all(collective.carries(each) for each in (torch.bool, torch.float64, torch.uint8, torch.bfloat16))
    assert not any(collective.carries(each) for each in (torch.complex64, torch.uint16))
    assert collective.exact_dtypes is not None
    assert "float64" not in collective.exact_dtypes
    assert {"uint8", "bool"} < collective.exact_dtypes
    assert not collective.averages
    assert (collective.name, collective.other_names) == ("hccl", ("lccl",))


@pytest.mark.parametrize(
    ("config", "carries"),
    [("cpu:gloo,npu:hccl", True), ("npu:lccl", True), ("cpu:gloo,hpu:hccl", False), ("npu:gloo", False)],
)
def test_a_group_of_the_other_hccl_is_not_taken(
    collective: northbridge.Collective, config: str, carries: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.distributed, "get_backend_config", lambda _group: config)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda _group: 1)  # with others, ones are summed
    chip: Any = SimpleNamespace(type="npu")  # torch knows no npu here

    with nullcontext() if carries else pytest.raises(northbridge.CollectiveError, match="'npu' needs 'hccl', but"):
        collective.assert_carries(chip)
