"""The chip as a torch device: its indices, its module, and everything in torch that asks a device."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset


def test_a_tensor_without_an_index_lands_on_the_current_device(chip: ModuleType) -> None:
    with chip.device(2):
        assert chip.current_device() == 2
        assert torch.ones(1, device="cpu_sim").device == torch.device("cpu_sim:2")

    assert torch.ones(1, device="cpu_sim").device == torch.device("cpu_sim:0")


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


@pytest.mark.parametrize(
    "use",
    [
        lambda chip: chip.set_device(9),
        lambda chip: torch.empty(1, device="cpu_sim:9"),
        lambda chip: torch.ones(1).to("cpu_sim:9"),
        lambda chip: torch.Generator(device="cpu_sim:9"),
        lambda chip: chip.memory_allocated(9),
        lambda chip: chip.device(9),
        lambda chip: torch.accelerator.set_device_index(9),
        lambda chip: torch.Stream(device="cpu_sim:9"),
    ],
)
def test_an_index_that_is_not_there_is_refused_with_those_that_are(
    chip: ModuleType, use: Callable[[ModuleType], object]
) -> None:
    with pytest.raises(
        RuntimeError,
        match=r"cpu_sim:9 was asked for, but there are 8 devices \(0 to 7\)",
    ):
        use(chip)


def test_a_device_of_another_type_is_refused_by_name(chip: ModuleType) -> None:
    with pytest.raises(ValueError, match="a cpu_sim device was expected, but got 'cpu'"):
        chip.set_device("cpu")


def matrices() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(3, 3, device="cpu_sim:0"), torch.ones(3, 3)


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, y: x + y,
        lambda x, y: y + x,
        lambda x, y: x @ y,
        lambda x, y: torch.cat([x, y]),
        lambda x, y: torch.where(x > 0, x, y),
        lambda x, y: torch.nn.functional.linear(x, y),
        lambda x, y: x.add_(y),
        lambda x, y: y.add_(x),
        lambda x, y: torch.add(x, x, out=y),
        lambda x, y: torch.nn.functional.conv1d(x, torch.ones(1, 3, 1)),
        lambda x, y: torch.nn.functional.embedding(torch.tensor([0]), x),
        lambda x, y: torch.nn.functional.layer_norm(x, (3,), torch.ones(3)),
        lambda x, y: torch.ones(()).add_(x.sum()),
        lambda x, y: torch.ops.aten._foreach_add([x], [y]),
    ],
)
def test_an_operation_over_the_chip_and_the_cpu_raises_as_on_cuda(
    chip: ModuleType, mix: Callable[[torch.Tensor, torch.Tensor], object]
) -> None:
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


def test_a_scalar_of_the_cpu_joins_in_as_on_cuda(chip: ModuleType) -> None:
    x = torch.arange(3.0, device="cpu_sim")

    assert (x + torch.tensor(1.0)).tolist() == [1.0, 2.0, 3.0]
    assert (torch.tensor(2.0) * x).device == x.device
    assert x.mul_(torch.tensor(2.0)).tolist() == [0.0, 2.0, 4.0]
    assert torch.where(x > 1, x, torch.tensor(-1.0)).tolist() == [-1.0, 2.0, 4.0]


def test_indices_of_the_cpu_index_a_tensor_of_the_chip_as_on_cuda(chip: ModuleType) -> None:
    x = torch.arange(6.0, device="cpu_sim").view(2, 3)

    assert x[torch.tensor([1, 0])].tolist() == [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]]
    x[torch.tensor([True, False])] = 7.0
    assert x.tolist() == [[7.0, 7.0, 7.0], [3.0, 4.0, 5.0]]
    x[torch.tensor([1]), torch.tensor([2], device="cpu_sim")] = torch.tensor(9.0)
    assert x[1, 2].item() == 9.0


def test_copies_cross_devices(chip: ModuleType) -> None:
    x = torch.arange(4.0)

    there = x.to("cpu_sim:1")
    across = there.to("cpu_sim:5")
    back = across.cpu()

    assert (there.device.index, across.device.index) == (1, 5)
    assert torch.equal(back, x)
    assert there.data_ptr() != x.data_ptr()
    torch.ops.aten._foreach_copy_([there], [torch.zeros(4)])
    assert there.tolist() == [0.0] * 4


def test_tensors_and_modules_have_the_devices_name_as_a_method(chip: ModuleType) -> None:
    x: Any = torch.ones(2)
    module: Any = torch.nn.Linear(2, 2)

    assert not x.is_cpu_sim
    assert x.cpu_sim(1).is_cpu_sim
    assert next(module.cpu_sim().parameters()).device == torch.device("cpu_sim:0")


def test_torch_names_the_chip_as_its_accelerator(chip: ModuleType) -> None:
    assert torch.accelerator.current_accelerator() == torch.device("cpu_sim")
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == chip.device_count() == 8
    torch.accelerator.set_device_index(4)
    assert torch.accelerator.current_device_index() == chip.current_device() == 4
    torch.accelerator.set_device_index(0)
    torch.accelerator.synchronize()


def test_default_devices_work_in_a_with_and_for_good(chip: ModuleType) -> None:
    with torch.device("cpu_sim:1"):
        assert torch.nn.Linear(2, 2).weight.device == torch.device("cpu_sim:1")
        assert torch.arange(3).sum().item() == 3

    torch.set_default_device("cpu_sim")
    try:
        assert torch.randn(2).device == torch.device("cpu_sim:0")
    finally:
        torch.set_default_device(None)


def test_properties_name_the_device(chip: ModuleType) -> None:
    properties = chip.get_device_properties(1)

    assert properties.name == chip.get_device_name(1) == "Northbridge simulated chip"
    assert properties.total_memory == 16 * 2**30
    assert properties.card == 1


def test_printing_shows_values_and_device(chip: ModuleType) -> None:
    assert repr(torch.tensor([1.0, 2.5], device="cpu_sim:1")) == ("tensor([1.0000, 2.5000], device='cpu_sim:1')")
    assert "device='cpu_sim:0'" in repr(torch.randn(20, 20, device="cpu_sim", requires_grad=True))


def test_a_tensor_is_not_given_to_numpy_from_the_chip(chip: ModuleType) -> None:
    with pytest.raises(TypeError, match="can't convert cpu_sim:0 device type tensor to numpy"):
        torch.ones(2, device="cpu_sim").numpy()


def test_copies_and_pickles_stay_on_their_device(chip: ModuleType) -> None:
    x = torch.arange(4.0, device="cpu_sim:2", requires_grad=True)
    module = torch.nn.Linear(2, 2).to("cpu_sim:2")

    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert twin.device == x.device
        assert twin.requires_grad
        assert torch.equal(twin, x)
    assert copy.deepcopy(module).weight.device == module.weight.device


def test_a_file_saved_on_the_chip_opens_on_its_device_and_on_the_cpu(chip: ModuleType, tmp_path: Path) -> None:
    x = torch.arange(4.0, device="cpu_sim:2")
    torch.save({"x": x, "view": x[1:]}, tmp_path / "x.pt")

    there = torch.load(tmp_path / "x.pt")
    here = torch.load(tmp_path / "x.pt", map_location="cpu", weights_only=True)
    elsewhere = torch.load(tmp_path / "x.pt", map_location="cpu_sim:1")

    assert there["x"].device == torch.device("cpu_sim:2")
    assert elsewhere["view"].device == torch.device("cpu_sim:1")
    assert there["view"].tolist() == here["view"].tolist() == [1.0, 2.0, 3.0]
    there["x"][1] = 8.0
    assert there["view"][0].item() == 8.0


def test_a_file_of_a_device_that_is_not_there_says_so(chip: ModuleType) -> None:
    file = io.BytesIO()
    torch.save(torch.ones(1, device="cpu_sim:7"), file)
    file.seek(0)

    with pytest.raises(RuntimeError, match=r"device 9 but torch\.cpu_sim\.device_count\(\) is 8"):
        torch.load(file, map_location="cpu_sim:9")


def test_a_data_loader_brings_pinned_batches_from_workers(chip: ModuleType) -> None:
    data = TensorDataset(torch.arange(12.0).view(6, 2))

    batches = [
        batch.to("cpu_sim", non_blocking=True)
        for (batch,) in DataLoader(data, 2, num_workers=1, pin_memory=True, multiprocessing_context="spawn")
    ]

    assert torch.cat(batches).cpu().tolist() == data.tensors[0].tolist()
    assert all(batch.is_pinned() for (batch,) in DataLoader(data, 2, pin_memory=True))


def test_an_operator_that_the_cpu_lacks_is_refused_by_name(chip: ModuleType) -> None:
    x = torch.ones(2, 2, device="cpu_sim")

    with pytest.raises(NotImplementedError, match="aten::_fused_dropout was called on cpu_sim"):
        torch.ops.aten._fused_dropout(x, 0.5)


def test_a_layout_that_the_chip_cannot_hold_is_refused_by_name(chip: ModuleType) -> None:
    x = torch.ones(2, 2, device="cpu_sim")

    with pytest.raises(NotImplementedError, match="gives a tensor of layout Mkldnn"):
        x.to_mkldnn()
    with pytest.raises(NotImplementedError, match="which cpu_sim cannot hold"):
        x.to_sparse_csr()


def test_streams_and_events_are_torchs_own(chip: ModuleType) -> None:
    default = chip.current_stream()
    assert default == chip.default_stream()

    other = chip.Stream(device="cpu_sim:0")
    with chip.stream(other):
        assert chip.current_stream() == other
        torch.ones(2, device="cpu_sim").record_stream(other)
        start, end = chip.Event(enable_timing=True), chip.Event(enable_timing=True)
        start.record()
        torch.ones(256, 256, device="cpu_sim").exp()
        end.record()

    assert isinstance(other, torch.Stream)
    assert chip.current_stream() == default
    default.wait_stream(other)
    default.wait_event(end)
    assert other.query()
    assert end.query()
    end.synchronize()
    assert start.elapsed_time(end) > 0
    with chip.stream(None):
        chip.synchronize(1)


def test_a_child_forked_before_the_first_use_may_use_the_chip(
    in_fresh_process: Callable[..., str],
) -> None:
    said = in_fresh_process(
        """
        import os
        torch.manual_seed(0)
        assert torch.cpu_sim.is_available() and torch.cpu_sim.device_count() == 8
        assert not torch.cpu_sim.is_initialized()
        if os.fork() == 0:
            print(torch.ones(2, device="cpu_sim").sum().item(), flush=True)
            os._exit(0)
        os.wait()
        """
    )

    assert said == "2.0\n"


def test_a_child_forked_after_the_first_use_is_refused_every_use(
    in_fresh_process: Callable[..., str],
) -> None:
    said = in_fresh_process(
        """
        import os
        x = torch.ones(2, device="cpu_sim")
        uses = [
            lambda: torch.ones(2, device="cpu_sim"),
            lambda: x + 1,
            lambda: x.cpu(),
            lambda: x.sum().item(),
            lambda: torch.cpu_sim.set_device(1),
            lambda: torch.cpu_sim.synchronize(),
            lambda: torch.cpu_sim.init(),
        ]
        if os.fork() == 0:
            assert torch.cpu_sim._is_in_bad_fork()
            torch.manual_seed(0)
            for use in uses:
                try:
                    use()
                    print("worked", flush=True)
                except RuntimeError as error:
                    print(error, flush=True)
            os._exit(0)
        os.wait()
        assert not torch.cpu_sim._is_in_bad_fork()
        print((x + 1).tolist())
        """
    )

    *refusals, parent = said.splitlines()
    assert parent == "[2.0, 2.0]"
    assert len(refusals) == 7
    for refusal in refusals:
        assert "cpu_sim cannot be used in this process: it was forked from one" in refusal
        assert "'spawn'" in refusal


def test_a_process_that_holds_one_card_calls_it_0(in_fresh_process: Callable[..., str]) -> None:
    said = in_fresh_process(
        """
        torch.cpu_sim.hold(3)
        torch.cpu_sim.hold(3)
        print(torch.ones(1, device="cpu_sim").device, torch.cpu_sim.get_device_properties().card)
        print(torch.cpu_sim.device_count())
        for use in (lambda: torch.cpu_sim.hold(1), lambda: torch.ones(1, device="cpu_sim:3")):
            try:
                use()
            except RuntimeError as error:
                print(error)
        """
    )

    assert said.splitlines() == [
        "cpu_sim:0 3",
        "8",
        ("card 1 of cpu_sim was asked for, but this process already holds card 3; take another process for it"),
        "cpu_sim:3 was asked for, but this process holds one card, which it calls cpu_sim:0",
    ]


def test_a_process_that_has_touched_a_card_holds_card_0(
    in_fresh_process: Callable[..., str],
) -> None:
    said = in_fresh_process(
        """
        torch.ones(1, device="cpu_sim")
        try:
            torch.cpu_sim.hold(1)
        except RuntimeError as error:
            print(error)
        torch.cpu_sim.hold(0)
        """
    )

    assert "this process already holds card 0" in said


def test_a_process_that_stands_on_another_device_holds_no_card(in_fresh_process: Callable[..., str]) -> None:
    said = in_fresh_process(
        """
        torch.cpu_sim.set_device(1)
        try:
            torch.cpu_sim.hold(0)
        except RuntimeError as error:
            print(error)
        """
    )

    assert "this thread's current device is cpu_sim:1; take the card before any other" in said


def test_a_process_that_holds_one_card_seeds_it_and_trains_on_it(in_fresh_process: Callable[..., str]) -> None:
    said = in_fresh_process(
        """
        torch.cpu_sim.hold(3)
        torch.manual_seed(5)
        print(torch.cpu_sim.initial_seed(), len(torch.cpu_sim.get_rng_state_all()))
        weight = torch.ones(2, device="cpu_sim", requires_grad=True)
        weight.square().sum().backward()
        print(weight.grad.tolist())
        """
    )

    assert said.splitlines() == ["5 1", "[2.0, 2.0]"]
