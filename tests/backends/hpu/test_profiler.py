"""HPUProfiler, and ``profiler="pytorch"`` on HPUs."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import northbridge
import northbridge_hpu
from northbridge.errors import ArgumentsError, SettingsError
from northbridge.lightning.profilers.trace import read_trace

# Lightning's CombinedLoader asks torch's trees in a way that torch deprecates.
pytestmark = [pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"), pytest.mark.usefixtures("hpu")]
Fit = Callable[..., Any]


@pytest.fixture(params=["lightning.pytorch", "pytorch_lightning"])
def fit(request: pytest.FixtureRequest) -> Fit:
    """Fit six batches on an HPU in each namespace with a Trainer, and return the Trainer."""
    namespace: Any = importlib.import_module(request.param)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)

    def run(profiler: Any, **asked: Any) -> Any:
        limits = {"max_epochs": 1, "limit_train_batches": 6, "limit_val_batches": 0, **asked}
        trainer = namespace.Trainer(accelerator="hpu", devices=1, profiler=profiler, **quiet, **limits)
        trainer.fit(importlib.import_module(f"{request.param}.demos.boring_classes").BoringModel())
        return trainer

    return run


def test_it_is_lightnings_profiler_with_the_old_defaults(fit: Fit, tmp_path: Path) -> None:
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


def test_the_string_records_the_card_too(fit: Fit, tmp_path: Path) -> None:
    trainer = fit("pytorch", default_root_dir=tmp_path)

    assert isinstance(trainer.profiler, northbridge_hpu.HPUProfiler)
    (trace,) = tmp_path.glob("*.trace.json")
    assert read_trace(trace).events


def test_too_few_steps_are_recorded_with_a_warning(fit: Fit, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="schedule will be overridden as there is not enough steps"):
        fit(northbridge_hpu.HPUProfiler(tmp_path), limit_train_batches=2)

    (trace,) = tmp_path.glob("*.trace.json")
    assert [event.name for event in read_trace(trace).events].count(
        "hpu::addmm"
    ) == 1  # Lightning decides after the first


def test_a_profile_of_another_tool_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_PROFILE", "profile_api")

    for ask in (northbridge_hpu.HPUProfiler, northbridge.get("hpu").acceleration.profiler_activity):
        with pytest.raises(SettingsError) as raised:
            ask()

        assert str(raised.value) == (
            "HABANA_PROFILE='profile_api' is not for torch's profiler. Fix: unset it, or write profile_api_light"
        )


@pytest.mark.parametrize("value", [None, "profile_api_light"])
def test_the_values_for_torchs_profiler_are_accepted(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    if value is None:
        monkeypatch.delenv("HABANA_PROFILE")
    else:
        monkeypatch.setenv("HABANA_PROFILE", value)

    assert str(northbridge.get("hpu").acceleration.profiler_activity()) == "ProfilerActivity.HPU"
    assert repr(northbridge_hpu.HPUProfiler(row_limit=5)) == "HPUProfiler(row_limit=5)"


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ({"row_limits": 3}, "HPUProfiler() has no argument row_limits=; did you mean row_limit=?"),
        ({"emit_nvtx": True}, "HPUProfiler() has no argument emit_nvtx="),
    ],
)
def test_a_wrong_argument_is_refused_at_once(argument: dict[str, Any], told: str) -> None:
    with pytest.raises(ArgumentsError) as raised:
        northbridge_hpu.HPUProfiler(**argument)

    assert str(raised.value).startswith(told)


@pytest.mark.parametrize("argument", [{"sort_by_key": "hpu_time"}, {"schedule": "often"}])
def test_a_wrong_value_is_refused_by_the_trainer(fit: Fit, argument: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=r"Found sort_by_key: hpu_time|Schedule should be a callable. Found: often"):
        fit(northbridge_hpu.HPUProfiler(**argument))


def test_arguments_of_the_vendors_profile_are_passed_on(hpu: ModuleType, fit: Fit, tmp_path: Path) -> None:
    from habana_frameworks.torch.activity_profiler import DebugActivity

    chosen = [DebugActivity.BRIDGE_FUNCTION_CALLS]
    trainer = fit(northbridge_hpu.HPUProfiler(tmp_path, debug_activities=chosen, record_shapes=True))

    assert trainer.profiler._profiler_kwargs["debug_activities"] == chosen
