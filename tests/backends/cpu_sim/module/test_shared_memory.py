"""Tensors of the chip in other processes and other libraries."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils import dlpack

import northbridge

# Not exported, or untyped, in torch.
from_dlpack: Callable[..., Tensor] = torch.from_dlpack  # type: ignore[attr-defined]
capsules: Any = dlpack

REFUSAL = r"a tensor on cpu_sim:1 cannot be shared between processes\. Fix: share its \.cpu\(\)"


@pytest.mark.parametrize(
    "share",
    [
        lambda x: x.share_memory_(),
        lambda x: x.untyped_storage().share_memory_(),
        lambda x: nn.ParameterList([x]).share_memory(),
        lambda x: ForkingPickler.dumps(x),
        lambda x: ForkingPickler.dumps({"weights": [nn.Parameter(x)]}),
        lambda x: ForkingPickler.dumps(x[1:]),
        lambda x: ForkingPickler.dumps(x.untyped_storage()),
    ],
    ids=["tensor", "storage", "module", "queued", "queued parameter", "queued view", "queued storage"],
)
def test_device_memory_is_not_shared_between_processes(chip: ModuleType, share: Callable[[Tensor], object]) -> None:
    with pytest.raises(northbridge.UnsupportedError, match=REFUSAL):
        share(torch.ones(3, device="cpu_sim:1"))


class OnTheChip(torch.utils.data.Dataset[Tensor]):
    """A user's that computes on the chip in the loader's worker."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Tensor:
        northbridge.load("cpu_sim")
        return torch.ones(3, device="cpu_sim:1")


def test_worker_that_sends_chip_memory_raises(chip: ModuleType) -> None:
    loader = torch.utils.data.DataLoader(OnTheChip(), num_workers=1, multiprocessing_context="spawn")

    with pytest.raises(northbridge.UnsupportedError, match=REFUSAL + ".* workers return CPU tensors"):
        list(loader)


def test_the_cpus_memory_is_shared_as_ever(chip: ModuleType) -> None:
    x: Any = torch.arange(3.0)

    assert x.share_memory_().is_shared()
    clone = pickle.loads(ForkingPickler.dumps(x))
    clone[0] = 7.0

    assert x[0].item() == 7.0


def test_dlpack_hands_the_memory_over_without_a_copy(chip: ModuleType) -> None:
    x = torch.arange(3.0, device="cpu_sim:2")

    clone = from_dlpack(x)
    clone[0] = 7.0

    assert tuple(map(int, x.__dlpack_device__())) == (12, 2)  # DLPack's number of extension devices
    assert clone.device == x.device
    assert x[0].item() == 7.0
    again = capsules.from_dlpack(capsules.to_dlpack(x))
    assert again.data_ptr() == x.data_ptr()


def test_dlpack_copies_where_it_is_asked_to(chip: ModuleType) -> None:
    x = torch.arange(3.0, device="cpu_sim")

    copied = from_dlpack(x, copy=True)
    on_cpu = from_dlpack(x, device="cpu")
    back = from_dlpack(on_cpu, device="cpu_sim:1")

    assert copied.data_ptr() != x.data_ptr()
    assert (copied.device.type, on_cpu.device.type, str(back.device)) == ("cpu_sim", "cpu", "cpu_sim:1")
    assert copied.tolist() == on_cpu.tolist() == back.tolist() == [0.0, 1.0, 2.0]


def test_what_dlpack_cannot_say_is_refused_as_on_cuda(chip: ModuleType) -> None:
    with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
        from_dlpack(torch.ones(3, device="cpu_sim", requires_grad=True))
    assert int(torch.ones(1).__dlpack_device__()[0]) == 1  # the CPU's


@pytest.mark.parametrize(
    "give", [lambda x: x.numpy(), np.asarray, lambda x: np.add(x, 1)], ids=["numpy", "array", "ufunc"]
)
def test_numpy_gets_nothing_but_what_is_on_the_cpu(chip: ModuleType, give: Callable[[Tensor], object]) -> None:
    x = torch.ones(2, device="cpu_sim:1")

    with pytest.raises(TypeError, match=r"can't convert cpu_sim:1 device type tensor to numpy\. Use Tensor\.cpu\(\)"):
        give(x)
    assert x.numpy(force=True).tolist() == [1.0, 1.0]


def test_numpy_takes_no_capsule_of_the_device(chip: ModuleType) -> None:
    x: Any = torch.ones(2, device="cpu_sim")

    with pytest.raises((RuntimeError, BufferError), match="Unsupported device in DLTensor"):
        np.from_dlpack(x)
    assert not hasattr(x, "__cuda_array_interface__")


def test_numpys_arrays_come_to_the_device(chip: ModuleType) -> None:
    array = np.arange(3)

    assert torch.as_tensor(array, device="cpu_sim").tolist() == [0, 1, 2]
    assert torch.asarray(array, device="cpu_sim:1").device == torch.device("cpu_sim:1")
    assert torch.from_numpy(array).to("cpu_sim").tolist() == [0, 1, 2]
