"""HPUProfiler, ``profiler="pytorch"`` on HPUs, and torch's: the card's events are in the exported file alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from tests.backends.simulation.processes import Run
from torch._C._profiler import ProfilerActivity as TorchsActivity  # as a script has it that imported it first

import northbridge
import northbridge_hpu
from northbridge.errors import ArgumentsError, SettingsError
from northbridge.lightning.profilers.trace import read_trace

# Lightning's CombinedLoader asks torch's trees in a way that torch deprecates.
pytestmark = [pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"), pytest.mark.usefixtures("hpu")]


def fit(profiler: Any, **asked: Any) -> Any:
    """Fit six batches on an HPU with a Trainer, and return the Trainer."""
    quiet: Any = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    limits = {"max_epochs": 1, "limit_train_batches": 6, "limit_val_batches": 0, **asked}
    trainer = Trainer(accelerator="hpu", devices=1, profiler=profiler, **quiet, **limits)
    trainer.fit(BoringModel())
    return trainer


def test_it_is_lightnings_profiler_with_the_old_defaults(tmp_path: Path) -> None:
    profiler = northbridge_hpu.HPUProfiler(str(tmp_path), "profile", row_limit=3)

    trainer = fit(profiler)

    assert trainer.profiler is profiler
    assert isinstance(trainer.profiler, northbridge_hpu.HPUProfiler)
    said = (tmp_path / "fit-profile.txt").read_text()
    assert "[pl][module]" not in said  # record_module_names=False, as it was
    assert re.search(r"device events of hpu\nname .*\n-+\nhpu::", said)
    (trace,) = tmp_path.glob("*.trace.json")
    calls = [event.name for event in read_trace(trace).events]
    assert calls.count("hpu::addmm") == 3  # wait 1, warmup 1, active 3


def test_the_string_records_the_card_too(tmp_path: Path) -> None:
    trainer = fit("pytorch", default_root_dir=tmp_path)

    assert isinstance(trainer.profiler, northbridge_hpu.HPUProfiler)
    (trace,) = tmp_path.glob("*.trace.json")
    assert read_trace(trace).events


def test_a_profile_of_another_tool_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_PROFILE", "profile_api")

    for ask in (northbridge_hpu.HPUProfiler, northbridge.get("hpu").acceleration.profiler_activity):
        with pytest.raises(SettingsError) as raised:
            ask()

        assert str(raised.value) == (
            "HABANA_PROFILE='profile_api' is not for torch's profiler. Fix: unset it, or write profile_api_light"
        )


def test_the_values_for_torchs_profiler_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = northbridge.get("hpu").acceleration.profiler_activity
    monkeypatch.setenv("HABANA_PROFILE", "profile_api_light")
    assert str(ask()) == "ProfilerActivity.HPU"
    monkeypatch.delenv("HABANA_PROFILE")
    assert str(ask()) == "ProfilerActivity.HPU"
    assert repr(northbridge_hpu.HPUProfiler(row_limit=5)) == "HPUProfiler(row_limit=5)"


def test_wrong_arguments_and_values_are_refused() -> None:
    for argument, told in {"row_limits": "; did you mean row_limit=?", "emit_nvtx": ""}.items():
        with pytest.raises(ArgumentsError) as raised:
            northbridge_hpu.HPUProfiler(**{argument: True})
        assert str(raised.value).startswith(f"HPUProfiler() has no argument {argument}={told}")
    for value in ({"sort_by_key": "hpu_time"}, {"schedule": "often"}):
        with pytest.raises(Exception, match=r"Found sort_by_key: hpu_time|Schedule should be a callable. Found: often"):
            fit(northbridge_hpu.HPUProfiler(**value))


def test_arguments_of_the_vendors_profile_are_passed_on(hpu: ModuleType, tmp_path: Path) -> None:
    from habana_frameworks.torch.activity_profiler import DebugActivity

    chosen = [DebugActivity.BRIDGE_FUNCTION_CALLS]
    trainer = fit(northbridge_hpu.HPUProfiler(tmp_path, debug_activities=chosen, record_shapes=True))

    assert trainer.profiler._profiler_kwargs["debug_activities"] == chosen
    (trace,) = tmp_path.glob("*.trace.json")
    assert read_trace(trace).events


# torch's profiler on the simulated card


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


@pytest.mark.shows("torch.profiler.ProfilerActivity")
def test_torch_activity_records_nothing_of_the_card(tmp_path: Path) -> None:
    activities: Any = torch.profiler.ProfilerActivity

    assert [each.name for each in activities] == ["CPU", "CUDA", "HPU"]
    assert activities.HPU != TorchsActivity.HPU
    assert profiled(tmp_path / "theirs.json", activities=[TorchsActivity.CPU, TorchsActivity.HPU]) == []
    assert profiled(tmp_path / "host.json", activities=[activities.CPU]) == []
    assert profiled(tmp_path / "alone.json", activities=[activities.HPU])


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
