"""torch's profiler on a Gaudi: the card's events are added to the exported file, and are nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.backends.simulation.processes import Run
from torch._C._profiler import ProfilerActivity as TorchsActivity  # as a script has it that imported it first

from northbridge.lightning.profilers.trace import read_trace


def profiled(path: Path, **asked: Any) -> list[dict[str, Any]]:
    """Profile a product and a sum, and return the card's rows and events in the exported file."""
    profile: Any = torch.profiler.profile
    with profile(**asked) as measured:
        (torch.ones(8, 8, device="hpu") @ torch.ones(8, 8).to("hpu")).sum()
    measured.export_chrome_trace(str(path))
    assert not any(event.key.startswith("hpu::") for event in measured.key_averages())
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return [event for event in events if event.get("pid") == 0 and "/device" not in str(event.get("args"))]


@pytest.mark.shows("the card's events in a trace")
def test_the_file_has_the_cards_events_and_the_table_has_not(hpu: ModuleType, tmp_path: Path) -> None:
    events = [event for event in profiled(tmp_path / "trace.json") if event["ph"] == "X"]

    assert {"hpu::mm", "hpu::sum.dim_IntList", "hpu::copy_"} <= {event["name"] for event in events}
    assert {event["cat"] for event in events} == {"Kernel", "Memcpy"}
    assert all(event["dur"] >= 0 for event in events)
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["deviceProperties"][-1]["name"] == hpu.get_device_name()
    assert {event.name for event in read_trace(tmp_path / "trace.json").events} == {event["name"] for event in events}
    host = [event for event in trace["traceEvents"] if event.get("cat") == "cpu_op" and event["name"] == "aten::mm"]
    (mm,) = (event for event in events if event["name"] == "hpu::mm")
    assert host[0]["ts"] <= mm["ts"] <= host[0]["ts"] + host[0]["dur"]


@pytest.mark.usefixtures("hpu")
@pytest.mark.shows("torch.profiler.ProfilerActivity")
def test_torch_activity_records_nothing_of_the_card(tmp_path: Path) -> None:
    activities: Any = torch.profiler.ProfilerActivity

    assert [each.name for each in activities] == ["CPU", "CUDA", "HPU"]
    assert activities.HPU != TorchsActivity.HPU
    assert profiled(tmp_path / "theirs.json", activities=[TorchsActivity.CPU, TorchsActivity.HPU]) == []
    assert profiled(tmp_path / "host.json", activities=[activities.CPU]) == []
    assert profiled(tmp_path / "alone.json", activities=[activities.HPU])


def test_debug_activities_are_accepted(hpu: ModuleType, tmp_path: Path) -> None:
    from habana_frameworks.torch.activity_profiler import DebugActivity

    chosen = [DebugActivity.SYNAPSE_FUNCTION_CALLS, DebugActivity.BRIDGE_FUNCTION_CALLS]
    assert profiled(tmp_path / "trace.json", debug_activities=chosen)


@pytest.mark.usefixtures("hpu")
def test_a_second_file_does_not_get_the_events_again(tmp_path: Path) -> None:
    assert profiled(tmp_path / "trace.json")

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as second:
        torch.ones(2)
    second.export_chrome_trace(str(tmp_path / "second.json"))

    assert read_trace(tmp_path / "second.json").events == ()


def test_without_the_variable_no_card_is_recorded(run: Run, tmp_path: Path) -> None:
    said = run(
        f"""
        path = {str(tmp_path / "trace.json")!r}
        import json
        with torch.profiler.profile() as measured:
            torch.ones(2, device="hpu").sum()
        measured.export_chrome_trace(path)
        print(sum("hpu::" in str(event.get("name")) for event in json.load(open(path))["traceEvents"]))
        """,
        HABANA_PROFILE="0",
    )

    assert "HPU hardware profiling is disabled: HABANA_PROFILE is not set" in said
    assert said.endswith("\n0\n")
