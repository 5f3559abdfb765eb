"""Names of ``habana_frameworks`` that scripts use, and that nothing here relies on."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from tests.backends.simulation.processes import Run

import northbridge


def test_calls_of_the_vendors_examples_change_nothing(hpu: ModuleType) -> None:
    """Older scripts load the bridge by name, and each run says whether shapes are dynamic."""
    from habana_frameworks.torch.utils import library_loader

    for call in (library_loader.load_habana_module, hpu.enable_dynamic_shape, hpu.disable_dynamic_shape):
        call()
        assert torch.ones(2, device="hpu").sum().item() == 2
    assert library_loader.is_habana_available()


def test_memory_is_reserved_as_a_whole(hpu: ModuleType) -> None:
    limit = hpu.memory_stats()["Limit"]

    assert hpu.max_memory_reserved() == hpu.memory_reserved() == limit
    for old in ("memory_cached", "max_memory_cached"):
        with pytest.warns(FutureWarning, match=f"{old} is called"):
            assert getattr(hpu, old)() == limit


def test_counts_of_allocations_start_anew(hpu: ModuleType) -> None:
    kept = torch.ones(3, device="hpu")
    assert hpu.memory_stats()["NumAllocs"] > 0

    hpu.reset_accumulated_memory_stats()

    assert hpu.memory_stats()["NumAllocs"] == 0
    assert hpu.memory_stats()["InUse"] >= kept.nbytes
    assert hpu.memory_stats()["MaxAllocSize"] >= kept.nbytes


def test_names_that_deepspeed_asks_for(hpu: ModuleType) -> None:
    import habana_frameworks.torch.utils.experimental as htexp

    (generator,) = hpu.random.default_generators
    generator.manual_seed(3)
    first = torch.rand(2, device="hpu")
    hpu.manual_seed(3)

    assert torch.equal(torch.rand(2, device="hpu"), first)
    assert htexp._is_fp16_supported() is True  # from the second generation on


@pytest.mark.parametrize(
    ("line", "absent"),
    [
        ("import habana_frameworks.torch.gpu_migration", "torch.gpu_migration"),
        ("from habana_frameworks.torch import gpu_migration", "torch.gpu_migration"),
        ("from habana_frameworks.torch.hpex.absent.deep import name", "torch.hpex.absent"),
        ("from habana_frameworks.torch.core import name", "torch.core.name"),
        ("from habana_frameworks.mediapipe import fn", "mediapipe"),
        ("from torch.hpu import name", "torch.hpu.name"),
        ("import torch.hpu.name", "torch.hpu.name"),
        ("__import__('importlib').import_module('.name', 'habana_frameworks.torch')", "torch.name"),
    ],
)
def test_an_absent_name_is_not_simulated(hpu: ModuleType, line: str, absent: str) -> None:
    with pytest.raises(northbridge.NotSimulatedError) as caught:
        exec(line, {})

    fix = '. Fix: without gpu_migration, write torch.hpu and device "hpu"' if "gpu_migration" in line else ""
    said = f"the simulated Gaudi has no habana_frameworks.{absent}; see docs/simulated-gaudi.md{fix}"
    assert str(caught.value) == said
    with pytest.raises(AttributeError, match=r"^the simulated Gaudi has no habana_\S+.hpu.empty_cache; see"):
        _ = hpu.empty_cache


def test_an_absent_operator_is_not_simulated(hpu: ModuleType) -> None:
    import torch

    with pytest.raises(AttributeError) as caught:
        _ = torch.ops.hpu.mixture_of_experts

    assert (
        str(caught.value) == "the simulated Gaudi has no torch.ops.hpu.mixture_of_experts; see docs/simulated-gaudi.md"
    )
    assert not hasattr(torch.ops.hpu, "__wrapped__")


def test_int64_support_is_read_when_the_card_is_acquired(run: Run) -> None:
    said = run(
        """
        import os
        import northbridge
        northbridge.load("hpu")
        claims = northbridge.get("hpu").present_capabilities
        os.environ["PT_ENABLE_INT64_SUPPORT"] = "0"
        print(claims().int64.answer)
        northbridge.get("hpu").device.select(0)
        os.environ["PT_ENABLE_INT64_SUPPORT"] = "1"
        print(claims().int64.answer)
        try:
            torch.tensor([2**40], device="hpu")
        except RuntimeError as error:
            print(str(error)[:41])
        """
    )
    assert said == "no\nno\nError when trying to cast Long to Int, In\n"
