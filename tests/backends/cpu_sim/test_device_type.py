"""Tensors of the chip in files, other processes and other libraries, and in what torch.compile makes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
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
        lambda x: ForkingPickler.dumps(x),
        lambda x: ForkingPickler.dumps({"weights": [nn.Parameter(x)]}),
        lambda x: ForkingPickler.dumps(x.untyped_storage()),
    ],
    ids=["tensor", "storage", "queued", "queued parameter", "queued storage"],
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
    assert tuple(map(int, x.__dlpack_device__())) == (12, 2)  # DLPack's number of extension devices
    assert int(torch.ones(1).__dlpack_device__()[0]) == 1  # the CPU's
    assert clone.device == x.device
    assert clone.data_ptr() == capsules.from_dlpack(capsules.to_dlpack(x)).data_ptr() == x.data_ptr()

    copied, on_cpu = from_dlpack(x, copy=True), from_dlpack(x, device="cpu")
    back = from_dlpack(on_cpu, device="cpu_sim:1")
    assert copied.data_ptr() != x.data_ptr()
    assert [str(each.device) for each in (copied, on_cpu, back)] == ["cpu_sim:2", "cpu", "cpu_sim:1"]
    assert copied.tolist() == on_cpu.tolist() == back.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
        from_dlpack(x.requires_grad_())


@pytest.mark.parametrize("give", [np.asarray, lambda x: np.add(x, 1)], ids=["array", "ufunc"])
def test_numpy_gets_nothing_but_what_is_on_the_cpu(chip: ModuleType, give: Callable[[Tensor], object]) -> None:
    x: Any = torch.ones(2, device="cpu_sim:1")
    with pytest.raises(TypeError, match=r"can't convert cpu_sim:1 device type tensor to numpy\. Use Tensor\.cpu\(\)"):
        give(x)
    with pytest.raises((RuntimeError, BufferError), match="Unsupported device in DLTensor"):
        np.from_dlpack(x)
    assert x.numpy(force=True).tolist() == [1.0, 1.0]


@pytest.fixture
def forgotten(chip: ModuleType) -> Iterator[None]:
    """Nothing that another test compiled is used."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")  # of what torch.compile imports
@pytest.mark.usefixtures("forgotten")
class TestCompile:
    """Which backends of torch.compile run on the chip, and how the one that cannot is refused."""

    def test_streams_and_autocast_can_be_traced(self, chip: ModuleType) -> None:
        def on_a_stream(x: Tensor) -> Tensor:
            stream = torch.Stream(device=x.device)
            with stream, torch.autocast("cpu_sim", dtype=torch.bfloat16):
                product = x @ x
            torch.accelerator.current_stream().wait_stream(stream)
            return product

        result = torch.compile(on_a_stream, backend="aot_eager")(torch.ones(4, 4, device="cpu_sim"))

        assert result.dtype == torch.bfloat16
        assert set(result.flatten().tolist()) == {4.0}

    @pytest.mark.parametrize("options", [{}, {"mode": "reduce-overhead"}], ids=str)
    def test_inductor_is_refused_with_what_to_write_instead(self, options: dict[str, Any]) -> None:
        compiled: Callable[[Tensor], Tensor] = torch.compile(lambda x: x.sin() + 1, **options)

        with pytest.raises(northbridge.UnsupportedError) as caught:
            compiled(torch.ones(3, device="cpu_sim"))

        assert str(caught.value).startswith(
            "inductor generates no code for cpu_sim. Fix: torch.compile(…, backend='aot_eager')"
        )
        assert caught.value.capability == "inductor"
        assert not any("convert_frame" in str(entry.path) for entry in caught.traceback)
        clone = pickle.loads(pickle.dumps(caught.value))
        assert isinstance(clone, northbridge.UnsupportedError)
        assert str(clone) == str(caught.value)

    def test_loading_the_chip_imports_no_compiler(self, in_fresh_process: Callable[..., str]) -> None:
        said = in_fresh_process(
            "import northbridge; northbridge.load('cpu_sim'); import sys, torch; print('torch._dynamo' in sys.modules)"
        )

        assert said == "False\n"


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, "cpu_sim:2"),
        ("cpu_sim", "cpu_sim:0"),
        ("a device", "cpu_sim:3"),
        ({"cpu_sim:2": "cpu_sim:5"}, "cpu_sim:5"),
        (lambda storage, place: storage.cpu_sim(4) if place == "cpu_sim:2" else storage, "cpu_sim:4"),
    ],
    ids=["none", "type", "device", "table", "function"],
)
def test_a_file_opens_where_map_location_says(
    chip: ModuleType, tmp_path: Path, where: Any, expected: str, weights_only: bool
) -> None:
    module = torch.nn.Linear(2, 2, device="cpu_sim:2")
    file = tmp_path / "module.pt"
    if where == "a device":
        where = torch.device("cpu_sim:3")  # not known yet when the tests are collected
    torch.save({"state": module.state_dict(), "parameter": module.weight}, file)

    opened = torch.load(file, map_location=where, weights_only=weights_only)

    for tensor in (*opened["state"].values(), opened["parameter"]):
        assert str(tensor.device) == expected
    assert torch.equal(opened["parameter"].cpu(), module.weight.cpu())


def test_a_file_is_mapped_and_an_old_one_is_read(chip: ModuleType, tmp_path: Path) -> None:
    x = torch.arange(4.0, device="cpu_sim:2")
    torch.save(x, tmp_path / "new.pt")
    torch.save(x, tmp_path / "old.pt", _use_new_zipfile_serialization=False)

    for opened in (torch.load(tmp_path / "new.pt", mmap=True), torch.load(tmp_path / "old.pt")):
        assert opened.device == x.device
        assert torch.equal(opened, x)


@pytest.mark.filterwarnings("ignore:.*(jit|torchscript|TorchScript|legacy)")  # torch's, of tracing
def test_an_operator_that_escapes_the_tracer_is_refused(chip: ModuleType) -> None:
    """An operator that torch does not record would be a constant of the traced model, so it is an error."""
    relu: Any = torch.ops.aten.relu.default
    trace: Any = torch.jit.trace  # untyped
    below = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)  # of the tracer

    with pytest.raises(NotImplementedError) as raised:
        trace(lambda given: relu.redispatch(below, given), torch.ones(2, device="cpu_sim"))

    assert str(raised.value).splitlines()[0] == (
        "aten::relu on cpu_sim is not recorded by torch.jit.trace, and would be a constant of the traced model. Fix:"
        " trace it on the CPU"
    )
