"""Tensors of the chip in files, other processes and other libraries, and in what torch.compile makes."""

from __future__ import annotations

import io
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


@pytest.fixture
def forgotten(chip: ModuleType) -> Iterator[None]:
    """Nothing that another test compiled is used."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 1))


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")  # of what torch.compile imports
@pytest.mark.usefixtures("forgotten")
class TestCompile:
    """Which backends of torch.compile run on the chip, and how the one that cannot is refused."""

    def test_a_graph_break_keeps_the_device_and_the_numbers(self) -> None:
        seen: list[float] = []

        def broken(x: Tensor) -> Tensor:
            doubled = x * 2
            seen.append(doubled.sum().item())
            return doubled.sin()

        x = torch.arange(4.0, device="cpu_sim:2")
        result = torch.compile(broken, backend="aot_eager")(x)

        assert seen == [12.0]
        assert result.device == x.device
        assert torch.equal(result, (x * 2).sin())

    def test_a_compiled_function_is_traced_anew_for_another_device(self) -> None:
        def by_device(x: Tensor) -> Tensor:
            return x + (x.device.index if x.device.type == "cpu_sim" else 100)

        compiled = torch.compile(by_device, backend="aot_eager")

        assert [compiled(torch.zeros(1, device=device)).item() for device in ("cpu_sim:3", "cpu_sim:1", "cpu")] == [
            3,
            1,
            100,
        ]

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

    @pytest.mark.parametrize("options", [{}, {"backend": "inductor"}, {"mode": "reduce-overhead"}], ids=str)
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

    def test_a_model_that_inductor_refused_still_runs_without_it(self) -> None:
        module = net().to("cpu_sim")
        x = torch.ones(2, 4, device="cpu_sim")

        with pytest.raises(northbridge.UnsupportedError):
            torch.compile(module)(x)

        assert torch.equal(torch.compile(module, backend="aot_eager")(x), module(x))

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
        ({"cpu_sim:2": "cpu"}, "cpu"),
        (lambda storage, place: storage.cpu_sim(4) if place == "cpu_sim:2" else storage, "cpu_sim:4"),
        (lambda storage, place: storage, "cpu"),
        ("meta", "meta"),
    ],
    ids=["none", "type", "device", "table", "table to cpu", "function", "function of nothing", "meta"],
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
    if expected != "meta":
        assert torch.equal(opened["parameter"].cpu(), module.weight.cpu())


def test_a_file_is_mapped_and_an_old_one_is_read(chip: ModuleType, tmp_path: Path) -> None:
    x = torch.arange(4.0, device="cpu_sim:2")
    torch.save(x, tmp_path / "new.pt")
    torch.save(x, tmp_path / "old.pt", _use_new_zipfile_serialization=False)

    for opened in (torch.load(tmp_path / "new.pt", mmap=True), torch.load(tmp_path / "old.pt")):
        assert opened.device == x.device
        assert torch.equal(opened, x)


def test_a_file_of_a_device_that_is_not_there_says_so(chip: ModuleType) -> None:
    file = io.BytesIO()
    torch.save(torch.ones(1, device="cpu_sim:7"), file)
    file.seek(0)

    with pytest.raises(RuntimeError, match=r"device 9 but torch\.cpu_sim\.device_count\(\) is 8"):
        torch.load(file, map_location="cpu_sim:9")
