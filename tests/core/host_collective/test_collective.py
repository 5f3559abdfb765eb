"""HostCollective: what it registers with torch, and which torch it needs."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from tests.core.conftest import make_backend

import northbridge
from northbridge import Capabilities, HostCollective, no, unknown, yes
from northbridge.host_collective.copies import HostBuffers, HostCall


@pytest.mark.parametrize(("claim", "pinned"), [(yes, True), (unknown, False), (no("it has none"), False)], ids=str)
def test_backend_tells_it_the_device_and_pinned_memory(claim: northbridge.Claim, pinned: bool) -> None:
    collective = HostCollective()

    make_backend(collective=collective, capabilities=Capabilities(pinned_memory=claim))

    assert (collective.device_type, collective.pins_memory) == ("cpu", pinned)


def test_register_serves_the_device_and_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, object] = {}
    monkeypatch.setattr(dist, "split_group", dist.split_group)
    monkeypatch.setattr(dist.distributed_c10d, "split_group", dist.split_group)
    monkeypatch.setattr(dist.Backend, "backend_list", [])
    monkeypatch.setattr(dist.Backend, "register_backend", lambda name, make, **more: asked.update(more, name=name))
    collective = HostCollective()
    collective.device_type = "acme"

    collective.register()

    assert asked == {"name": "host", "devices": ["cpu", "acme"]}


def test_older_torch_is_one_unsupported_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.7.1")

    with pytest.raises(northbridge.UnsupportedError) as caught:
        HostCollective().register()

    assert str(caught.value) == "HostCollective needs torch 2.8, found 2.7.1. Fix: upgrade torch"


def test_error_of_a_copy_is_the_chips_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: object) -> None:
        raise torch.OutOfMemoryError("the host's memory is full")

    monkeypatch.setattr(torch.Tensor, "copy_", fill)
    call = HostCall("all_reduce", 2, HostBuffers(pinned=False))

    with pytest.raises(torch.OutOfMemoryError, match=r"^the host's memory is full$"), call:
        call.send([torch.ones(2, 2).t()])
    with pytest.raises(northbridge.CollectiveError, match=r"^all_reduce among 2 ranks failed over Gloo: it is full"):
        raise call.explain(RuntimeError("it is full"))
