"""The chip as a torch device: its indices, its module, and everything in torch that asks a device."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch


def test_device_contexts_nest_and_an_error_inside_leaves_them(chip: ModuleType) -> None:
    with pytest.raises(KeyError), chip.device("cpu_sim:1"), chip.device(torch.device("cpu_sim:2")):
        raise KeyError

    assert chip.current_device() == 0


def test_the_current_device_is_the_threads_own(chip: ModuleType) -> None:
    seen: list[int] = []
    with chip.device(3):
        thread = threading.Thread(target=lambda: seen.append(chip.current_device()))
        thread.start()
        thread.join()

    assert seen == [0]


def test_set_device_takes_index_string_and_device(chip: ModuleType) -> None:
    for device in (1, "cpu_sim:1", torch.device("cpu_sim", 1)):
        chip.set_device(device)
        assert chip.current_device() == 1
        chip.set_device(0)
    with pytest.raises(ValueError, match="expected a cpu_sim device, found 'cpu'"):
        chip.set_device("cpu")


@pytest.mark.parametrize(
    "use",
    [
        lambda chip: chip.set_device(9),
        lambda chip: torch.empty(1, device="cpu_sim:9"),
        lambda chip: torch.Generator(device="cpu_sim:9"),
        lambda chip: torch.accelerator.set_device_index(9),
        lambda chip: torch.Stream(device="cpu_sim:9"),
    ],
)
def test_an_index_that_is_not_there_is_refused(chip: ModuleType, use: Callable[[ModuleType], object]) -> None:
    with pytest.raises(RuntimeError, match=r"cpu_sim:9 was asked for, but there are 8 devices \(0 to 7\)"):
        use(chip)


def matrices() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(3, 3, device="cpu_sim:0"), torch.ones(3, 3)


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, y: x + y,
        lambda x, y: y + x,
        lambda x, y: x @ y,
        lambda x, y: torch.cat([x, y]),
        lambda x, y: x.add_(y),
        lambda x, y: torch.add(x, x, out=y),
        lambda x, y: torch.nn.functional.embedding(torch.tensor([0]), x),
        lambda x, y: torch.ones(()).add_(x.sum()),
        lambda x, y: torch.ops.aten._foreach_add([x], [y]),
    ],
)
def test_mixed_devices_raise_as_on_cuda(chip: ModuleType, mix: Callable[[torch.Tensor, torch.Tensor], object]) -> None:
    message = "Expected all tensors to be on the same device, but found at least two devices, cpu_sim:0 and cpu!"
    with pytest.raises(RuntimeError, match=message):
        mix(*matrices())


def test_the_message_names_argument_and_operator(chip: ModuleType) -> None:
    x, y = matrices()

    with pytest.raises(RuntimeError, match="when checking argument mat2 of aten::mm"):
        torch.mm(x, y)


def test_an_operation_over_two_devices_raises_even_for_a_scalar(chip: ModuleType) -> None:
    x = torch.ones(3, device="cpu_sim:0")

    for y in (torch.ones(3, device="cpu_sim:1"), torch.ones((), device="cpu_sim:1")):
        with pytest.raises(RuntimeError, match="two devices, cpu_sim:0 and cpu_sim:1!"):
            torch.add(x, y)


def test_cpu_indices_index_a_chip_tensor(chip: ModuleType) -> None:
    x = torch.arange(6.0, device="cpu_sim").view(2, 3)

    assert x[torch.tensor([1, 0])].tolist() == [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]]
    x[torch.tensor([True, False])] = 7.0
    assert x.tolist() == [[7.0, 7.0, 7.0], [3.0, 4.0, 5.0]]
    x[torch.tensor([1]), torch.tensor([2], device="cpu_sim")] = torch.tensor(9.0)
    assert x[1, 2].item() == 9.0


def test_tensors_and_modules_have_the_devices_name_as_a_method(chip: ModuleType) -> None:
    x: Any = torch.ones(2)
    module: Any = torch.nn.Linear(2, 2)

    assert not x.is_cpu_sim
    assert x.cpu_sim(1).is_cpu_sim
    assert next(module.cpu_sim().parameters()).device == torch.device("cpu_sim:0")


def test_properties_name_the_device(chip: ModuleType) -> None:
    properties = chip.get_device_properties(1)

    assert properties.name == chip.get_device_name(1) == "Northbridge simulated chip"
    assert properties.total_memory == 16 * 2**30
    assert properties.card == 1
    assert (properties.type, properties.multi_processor_count) == ("cpu_sim", torch.get_num_threads())


def test_the_accelerator_says_which_dtypes_it_has(chip: ModuleType, on_flint: Callable[..., list[str]]) -> None:
    dtypes = torch.accelerator.get_device_capability("cpu_sim:1")["supported_dtypes"]

    assert {torch.float32, torch.bfloat16, torch.complex64, torch.bool, torch.int64} <= set(dtypes)
    for dtype in dtypes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of complex numbers that lose a part, and of those of half precision
            x = torch.ones(2, device="cpu_sim:1").to(dtype)
            assert all(x.to(other).dtype is other for other in dtypes)
    assert chip.is_bf16_supported()
    assert chip.get_amp_supported_dtype() == [torch.bfloat16, torch.float16]
    said = on_flint(
        """
        device = device.model_copy(update={"lacks": {"bfloat16": "no bfloat16 here"}, "held_as": {}})
        module = install(device)
        dtypes = torch.accelerator.get_device_capability()["supported_dtypes"]
        print(module.is_bf16_supported(), module.get_amp_supported_dtype(), torch.bfloat16 in dtypes)
        """
    )
    assert said == ["False [torch.float16] False"]


def test_every_name_of_torchs_accelerator_works(chip: ModuleType) -> None:
    x = torch.ones(1024, device="cpu_sim:1")
    accelerator = torch.accelerator
    assert accelerator.is_available()
    assert accelerator.device_count() == chip.device_count() == 8

    with accelerator.device_index(1):
        assert accelerator.current_device_index() == 1
        assert accelerator.memory_allocated() == chip.memory_allocated(1) >= 4096
    assert accelerator.current_accelerator(check_available=True) == torch.device("cpu_sim")
    stream = torch.Stream(device="cpu_sim:1", priority=-1)
    before = accelerator.current_stream(1)
    accelerator.set_stream(stream)
    assert accelerator.current_device_index() == 1
    assert accelerator.current_stream() == stream
    accelerator.set_stream(before)
    accelerator.set_device_index(0)
    accelerator.reset_peak_memory_stats(1)
    accelerator.reset_accumulated_memory_stats(1)
    assert accelerator.max_memory_allocated(1) == accelerator.memory_allocated(1)
    assert accelerator.max_memory_reserved(1) == accelerator.memory_reserved(1)
    assert accelerator.memory_stats(1)["allocated_bytes.all.allocated"] == 0
    free, total = accelerator.get_memory_info(1)
    assert total - free == accelerator.memory_allocated(1)
    accelerator.empty_cache()
    accelerator.empty_host_cache()
    accelerator.synchronize(1)
    del x


def test_the_device_of_a_tensor_is_current_inside_a_with(chip: ModuleType) -> None:
    with chip.device_of(torch.ones(1, device="cpu_sim:3")):
        assert chip.current_device() == 3
        with chip.device_of(torch.ones(1)):
            assert chip.current_device() == 3

    assert chip.current_device() == 0
    assert chip._exchange_device(2) == 0
    assert chip._maybe_exchange_device(-1) == -1
    assert chip._exchange_device(0) == 2
    assert chip.can_device_access_peer(0, "cpu_sim:1")


def test_whatever_is_printed_names_the_device(chip: ModuleType) -> None:
    x = torch.tensor([1.0, 2.5], device="cpu_sim:1")

    assert repr(x) == "tensor([1.0000, 2.5000], device='cpu_sim:1')"
    assert repr((x + 2j).conj()) == "tensor([1.0000-2.j, 2.5000-2.j], device='cpu_sim:1')"
    assert repr(x[:1].untyped_storage()).endswith("[torch.storage.UntypedStorage(device=cpu_sim:1) of size 8]")
    assert repr(torch.Generator(device="cpu_sim:1").device) == "device(type='cpu_sim', index=1)"


def test_an_operator_that_the_cpu_lacks_is_refused_by_name(chip: ModuleType) -> None:
    x = torch.ones(2, 2, device="cpu_sim")

    with pytest.raises(NotImplementedError, match="aten::_fused_dropout was called on cpu_sim"):
        torch.ops.aten._fused_dropout(x, 0.5)


def test_the_default_stream_is_current_outside_of_a_with(chip: ModuleType) -> None:
    other = chip.Stream(device="cpu_sim:0")

    with chip.stream(other):
        assert chip.current_stream() == other != chip.default_stream()

    assert chip.current_stream() == chip.default_stream()
    with chip.stream(None):
        assert chip.current_stream() == chip.default_stream()
