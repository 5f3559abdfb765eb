"""The start of a rank's process group."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

import northbridge
from northbridge.launch.process_group import meet, start
from northbridge_conformance.runs.processes import reserve_port

CPU = torch.device("cpu")


class ACCL(northbridge.Collective):
    name = "accl"


@pytest.mark.filterwarnings("ignore:Device capability of accl unknown:UserWarning")  # torch's guess, before it fails
def test_unregistered_library_is_told_with_those_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(reserve_port()))

    with pytest.raises(northbridge.CollectiveError, match=r"torch has no backend 'accl'; found .*gloo"):
        start(ACCL(), rank=0, world_size=1, timeout=None, device=CPU)

    assert not dist.is_initialized()


def test_the_asked_library_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(reserve_port()))

    start(ACCL(), rank=0, world_size=1, timeout=None, device=CPU, library="gloo")
    try:
        assert dist.get_backend() == "gloo"
    finally:
        dist.destroy_process_group()


def test_torchcomms_is_refused_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(dist, "init_process_group", lambda *args, **kwargs: asked.update(kwargs))
    config = pytest.importorskip("torch.distributed.config", reason="torchcomms came with torch 2.13")
    with config.patch(use_torchcomms=True), pytest.raises(northbridge.VariableError) as caught:
        meet(ACCL(), rank=0, world_size=1, timeout=None, device=CPU)

    assert not asked
    assert caught.value.variable == "TORCH_DISTRIBUTED_USE_TORCHCOMMS"
    assert str(caught.value) == ("TORCH_DISTRIBUTED_USE_TORCHCOMMS is set, but torchcomms has no 'accl'. Fix: unset it")
