"""torch.profiler on the chip: its kernels stand in the table and in the trace, beside the CPU's operators."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

CHIP: Any = ProfilerActivity.PrivateUse1


@pytest.fixture
def profiled(chip: ModuleType) -> profile:
    """A profile of a matrix product and a sum on the second device."""
    x = torch.ones(64, 64, device="cpu_sim:1", requires_grad=True)
    measured: profile
    with profile(activities=[ProfilerActivity.CPU, CHIP]) as measured:
        torch.autograd.backward((x @ x).sum())
    return measured


def test_the_table_has_the_devices_time(profiled: profile) -> None:
    table = profiled.key_averages().table(sort_by="self_device_time_total")

    assert "Self CPU_SIM" in table
    kernels = {event.key: event for event in profiled.key_averages() if event.key.startswith("cpu_sim::")}
    assert kernels["cpu_sim::mm"].count == 3  # one forward, two backward
    assert kernels["cpu_sim::mm"].self_device_time_total > 0
    operators = {event.key: event for event in profiled.key_averages()}
    assert operators["aten::mm"].device_time_total > 0


def test_the_trace_has_the_kernels_on_device_and_stream(profiled: profile, tmp_path: Path) -> None:
    profiled.export_chrome_trace(str(tmp_path / "trace.json"))

    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert {"cpu_sim::mm", "cpu_sim::sum.dim_IntList"} <= {kernel["name"] for kernel in kernels}
    assert {(kernel["pid"], kernel["tid"]) for kernel in kernels} == {(1, 0)}
    (summed,) = (kernel for kernel in kernels if kernel["name"] == "cpu_sim::sum.dim_IntList")
    (operator,) = (
        event
        for event in events
        if event.get("cat") == "cpu_op" and event["args"]["External id"] == summed["args"]["correlation"]
    )
    assert operator["name"] == "aten::sum"
    assert operator["ts"] <= summed["ts"] + 1
    assert summed["ts"] + summed["dur"] <= operator["ts"] + operator["dur"] + 1  # microseconds, rounded
    rows = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert "cpu_sim:1 stream 0" in rows


def test_a_kernel_names_the_operator_that_it_belongs_to(profiled: profile) -> None:
    recorded: Any = profiled  # untyped

    kernels = [kernel for event in recorded.events() if event.name == "aten::sum" for kernel in event.kernels]

    assert [(kernel.name, kernel.device) for kernel in kernels] == [("cpu_sim::sum.dim_IntList", 1)]


def test_a_recurrent_layer_and_a_copy_that_is_deferred_are_in_it(chip: ModuleType) -> None:
    layer = torch.nn.LSTM(2, 3).to("cpu_sim:0")
    source = torch.ones(1, 1, 2).pin_memory()
    measured: profile
    with profile(activities=[ProfilerActivity.CPU, CHIP]) as measured:
        torch.autograd.backward(layer(source.to("cpu_sim:0", non_blocking=True))[0].sum())
        chip.synchronize()

    kernels = {event.key for event in measured.key_averages()}
    assert {"cpu_sim::copy_", "cpu_sim::lstm.input", "cpu_sim::lstm_backward.input"} <= kernels


def test_a_second_profile_has_nothing_of_the_first(profiled: profile) -> None:
    with profile(activities=[ProfilerActivity.CPU, CHIP]) as second:
        torch.ones(3, device="cpu_sim").exp()
    torch.ones(3, device="cpu_sim").sin()  # after its end

    names = {event.key for event in second.key_averages()}
    assert "cpu_sim::exp" in names
    assert not names & {"cpu_sim::mm", "cpu_sim::sin"}


def test_the_activity_has_the_chips_name_too(in_fork: Callable[..., str]) -> None:
    said = in_fork(
        """
        from torch.profiler import ProfilerActivity, profile, supported_activities
        assert ProfilerActivity.CPU_SIM in supported_activities()
        with profile(activities=[ProfilerActivity.CPU_SIM]) as alone:
            torch.ones(3, device="cpu_sim").exp()
        print(sorted(event.key for event in alone.key_averages() if event.key.startswith("cpu_sim::")))
        """
    )

    assert said == "['cpu_sim::exp', 'cpu_sim::fill_.Scalar']\n"
