"""HCCL of Huawei, beside the one of Habana."""

from __future__ import annotations

import pytest
import torch

import northbridge


@pytest.fixture
def collective() -> northbridge.Collective:
    return northbridge.get("npu").collective


def test_two_libraries_run_on_the_chip(collective: northbridge.Collective) -> None:
    assert (collective.name, collective.other_names) == ("hccl", ("lccl",))


def test_dtypes_travel_and_are_reduced_as_the_source_says(collective: northbridge.Collective) -> None:
    assert all(collective.carries(each) for each in (torch.bool, torch.float64, torch.uint8, torch.bfloat16))
    assert not any(collective.carries(each) for each in (torch.complex64, torch.uint16))
    assert collective.exact_dtypes is not None
    assert "float64" not in collective.exact_dtypes
    assert {"uint8", "bool"} < collective.exact_dtypes
    assert not collective.averages


@pytest.mark.parametrize(
    ("config", "carries"),
    [("cpu:gloo,npu:hccl", True), ("npu:lccl", True), ("cpu:gloo,hpu:hccl", False), ("npu:gloo", False)],
)
def test_a_group_of_the_other_hccl_is_not_taken(
    collective: northbridge.Collective, config: str, carries: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.distributed, "get_backend_config", lambda _group: config)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda _group: 1)  # with others, ones are summed

    if carries:
        collective.assert_carries(_Device("npu"))  # type: ignore[arg-type]  # torch knows no npu here
    else:
        with pytest.raises(northbridge.CollectiveError, match="'npu' needs 'hccl', but"):
            collective.assert_carries(_Device("npu"))  # type: ignore[arg-type]


class _Device:
    """What is asked of a torch.device."""

    def __init__(self, name: str) -> None:
        self.type = name


def test_both_libraries_of_the_name_keep_their_chips() -> None:
    """The two plugins stand side by side, as both are installed in a clone."""
    pytest.importorskip("northbridge_hpu", reason="Northbridge without its own backends")
    ascend, habana = northbridge.get("npu"), northbridge.get("hpu")

    assert ascend.collective.name == habana.collective.name == "hccl"
    assert (ascend.device.type, habana.device.type) == ("npu", "hpu")
    assert habana.collective.other_names == ()
    assert ascend.bridge.package != habana.bridge.package
