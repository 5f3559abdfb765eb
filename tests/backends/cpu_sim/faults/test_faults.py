"""Faults on purpose: each kind, wherever it can be met."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from northbridge_cpu_sim import Fault, count_step, faults_met, planned_faults

pytestmark = pytest.mark.usefixtures("chip")


def square(device: str = "cpu_sim:0") -> torch.Tensor:
    return torch.ones(4, 4, device=device)


def test_an_operation_raises_and_says_that_it_was_planned(capfd: pytest.CaptureFixture[str]) -> None:
    x = square()
    with planned_faults(Fault("raise", op="mm")):
        with pytest.raises(RuntimeError) as caught:
            torch.mm(x, x)
        product = x @ x

    planned = "raise op=aten::mm, of planned_faults"
    assert str(caught.value) == (f"the simulated chip failed, in aten::mm on cpu_sim:0: it was planned ({planned})")
    assert capfd.readouterr().err == f"northbridge: planned fault: raise, at step 0, in aten::mm, rank 0 ({planned})\n"
    assert product.flatten().tolist() == [4.0] * 16


def test_a_message_of_the_plan_is_what_is_raised() -> None:
    x = square()
    with (
        planned_faults(Fault("raise", op="add", message="bus error")),
        pytest.raises(RuntimeError, match=r"^bus error, in aten::add on cpu_sim:0: it was planned"),
    ):
        torch.add(x, x)


def test_what_has_happened_can_be_asked() -> None:
    fault = Fault("slow", op="mul", seconds=0.001, times=2, after=1)
    x = square("cpu_sim:2")
    before = len(faults_met())
    with planned_faults(fault):
        for _ in range(5):
            torch.mul(x, x)

    met = faults_met()[before:]
    assert [each.fault for each in met] == [fault, fault]
    assert {(each.rank, each.step, each.op, each.device, each.seq) for each in met} == {(0, 0, "aten::mul", 2, None)}


@pytest.mark.parametrize(
    ("op", "use"),
    [
        ("copy_", lambda x: x.cpu()),
        ("copy_", lambda x: x.to("cpu_sim:1")),
        ("_local_scalar_dense", lambda x: x[0, 0].item()),
        ("empty", lambda x: torch.empty(3, device=x.device)),
        ("empty_strided", lambda x: torch.empty_strided((3,), (1,), device=x.device)),
        ("resize_", lambda x: x.resize_(8)),
        ("_foreach_add_", lambda x: torch.ops.aten._foreach_add_([x], 1.0)),
        ("synchronize", lambda x: torch.accelerator.synchronize(x.device)),
        ("synchronize", lambda x: torch.accelerator.current_stream(x.device).synchronize()),
        ("synchronize", lambda x: torch.accelerator.current_stream(x.device).record_event().synchronize()),
    ],
)
def test_whatever_reaches_the_chip_can_fail(op: str, use: Callable[[torch.Tensor], object]) -> None:
    x = square()
    with planned_faults(Fault("raise", op=op)), pytest.raises(RuntimeError, match="it was planned"):
        use(x)


def test_planned_out_of_memory_loses_nothing(chip: ModuleType) -> None:
    x = square()
    before = chip.memory_allocated(0)
    with planned_faults(Fault("oom", after=1)):
        y = x + 1
        with pytest.raises(torch.OutOfMemoryError, match=r"^cpu_sim:0 is out of memory in an allocation: it was"):
            torch.add(x, 1)
        z = x + 1

    del y, z
    assert chip.memory_allocated(0) == before


def test_resized_result_survives_out_of_memory(chip: ModuleType) -> None:
    x, out = square(), torch.empty(0, device="cpu_sim:0")
    before = chip.memory_allocated(0)
    with planned_faults(Fault("oom", times="always")), pytest.raises(torch.OutOfMemoryError):
        torch.add(x, 1, out=out)

    assert chip.memory_allocated(0) == before
    assert torch.add(x, 1, out=out).flatten().tolist() == [2.0] * 16


def test_an_operation_can_run_out_of_memory_by_its_name() -> None:
    x = square()
    with (
        planned_faults(Fault("oom", op="mm")),
        pytest.raises(torch.OutOfMemoryError, match=r"out of memory in aten::mm: it was planned \(oom op=aten::mm, of"),
    ):
        torch.mm(x, (x + 1))


def changed(fault: Fault, compute: Callable[[], torch.Tensor]) -> list[float]:
    with planned_faults(fault):
        return compute().flatten().tolist()


def test_a_result_is_changed_in_one_element() -> None:
    x = torch.zeros(3, device="cpu_sim:0")

    one, two, _ = changed(Fault("corrupt", op="add"), lambda: x + 1)
    assert (math.isnan(one), two) == (True, 1.0)
    assert changed(Fault("corrupt", op="add", value=7, element=2), lambda: x + 1) == [1.0, 1.0, 7.0]
    assert changed(Fault("corrupt", op="add", bit=31, element=1), lambda: x + 1) == [1.0, -1.0, 1.0]


def test_integers_have_a_bit_flipped_where_they_have_no_nan() -> None:
    assert changed(Fault("corrupt", op="add"), lambda: torch.zeros(2, dtype=torch.int64, device="cpu_sim:0") + 4) == [
        5,
        4,
    ]


def test_element_is_counted_along_the_tensor() -> None:
    x = torch.zeros(2, 3, device="cpu_sim:0").t()

    assert changed(Fault("corrupt", op="add_", value=5, element=1), lambda: x.add_(1)) == [1, 5, 1, 1, 1, 1]


def test_what_an_operation_without_results_writes_is_changed() -> None:
    x = torch.zeros(2, device="cpu_sim:0")
    with planned_faults(Fault("corrupt", op="_foreach_add_", value=9)):
        torch.ops.aten._foreach_add_([x], 1.0)

    assert x.tolist() == [9.0, 1.0]


def test_result_is_changed_rather_than_an_argument() -> None:
    mean, variance = torch.zeros(2, device="cpu_sim:0"), torch.ones(2, device="cpu_sim:0")
    x = torch.ones(3, 2, device="cpu_sim:0")
    with planned_faults(Fault("corrupt", op="_native_batch_norm_legit", value=9)):
        given = torch.ops.aten._native_batch_norm_legit(x, None, None, mean, variance, True, 1.0, 1e-5)

    assert given[0].flatten().tolist() == [9.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert mean.tolist() == [1.0, 1.0]


def test_a_copy_that_is_deferred_is_changed_when_it_takes_effect() -> None:
    x = torch.ones(2).pin_memory()

    with planned_faults(Fault("corrupt", op="copy_", value=3)):
        there = x.to("cpu_sim:0", non_blocking=True)
        torch.accelerator.synchronize("cpu_sim:0")

    assert there.tolist() == [3.0, 1.0]


def test_a_recurrent_layer_is_one_operation() -> None:
    layer = torch.nn.LSTM(2, 3).to("cpu_sim:0")
    x = torch.ones(1, 1, 2, device="cpu_sim:0")
    state = torch.zeros(1, 1, 3, device="cpu_sim:0"), torch.zeros(1, 1, 3, device="cpu_sim:0")

    with planned_faults(Fault("raise", op="lstm")), pytest.raises(RuntimeError, match="in aten::lstm on cpu_sim:0"):
        layer(x, state)
    with planned_faults(Fault("corrupt", op="lstm", value=7)):
        assert layer(x, state)[0].flatten().tolist()[0] == 7.0
    with planned_faults(Fault("lose", device=0)):
        with pytest.raises(RuntimeError, match="was lost"):
            torch.accelerator.synchronize("cpu_sim:0")
        with pytest.raises(RuntimeError, match=r"was lost .* and aten::lstm needs it"):
            layer(x, state)


def test_a_copy_is_changed_on_its_way_to_the_cpu() -> None:
    x = torch.ones(2, device="cpu_sim:0")

    assert changed(Fault("corrupt", op="copy_", value=3), lambda: x.cpu()) == [3.0, 1.0]
    assert x.tolist() == [1.0, 1.0]


def test_lost_device_raises_and_the_others_go_on() -> None:
    x, other = square("cpu_sim:1"), square("cpu_sim:0")
    touches: list[Callable[[], object]] = [
        lambda: x + 1,
        lambda: x.cpu(),
        lambda: other.copy_(x),
        lambda: torch.zeros(1, device="cpu_sim:1"),
        lambda: torch.accelerator.synchronize("cpu_sim:1"),
    ]
    with planned_faults(Fault("lose", op="mm", device=1)):
        torch.mm(other, other)
        torch.add(x, 1)
        with pytest.raises(RuntimeError, match=r"^device cpu_sim:1 was lost \(planned fault: lose op=aten::mm"):
            torch.mm(x, x)
        for touch in touches:
            with pytest.raises(RuntimeError, match=r"device cpu_sim:1 was lost \(planned fault: "):
                touch()
        assert (other + 1).sum().item() == 32

    assert (x + 1).sum().item() == 32  # it is there again with the former plan


def test_a_step_is_one_of_an_optimizer() -> None:
    net = torch.nn.Linear(4, 1).to("cpu_sim:0")
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def train() -> None:
        for _ in range(10):
            torch.autograd.backward(net(square()).sum())
            optimizer.step()

    with planned_faults(Fault("raise", step=3)), pytest.raises(RuntimeError, match="it was planned"):
        train()

    assert faults_met()[-1].step == 3


def test_a_loop_without_an_optimizer_says_its_steps_itself() -> None:
    x = square()
    with planned_faults(Fault("raise", step=1, op="add")):
        torch.add(x, x)
        count_step()
        with pytest.raises(RuntimeError, match="it was planned"):
            torch.add(x, x)


def test_a_sequence_number_is_that_of_the_call() -> None:
    x = square()
    with planned_faults(Fault("corrupt", op="add", seq=3, value=0)):
        sums = [(x + 1)[0, 0].item() for _ in range(5)]

    assert sums == [2, 2, 0, 2, 2]


def test_a_plan_inside_another_is_added_and_taken_back() -> None:
    x = square()
    with planned_faults(Fault("raise", op="mul"), Fault("corrupt", op="add", times="always", value=0)):
        with planned_faults(Fault("raise", op="mm", times="always")):
            with pytest.raises(RuntimeError, match="in aten::mm"):
                torch.mm(x, x)
            assert (x + 1)[0, 0].item() == 0
            with pytest.raises(RuntimeError, match="in aten::mul"):
                torch.mul(x, x)
        torch.mm(x, x)
        torch.mul(x, x)  # once, and that was inside
        assert (x + 1)[0, 0].item() == 0
    assert (x + 1)[0, 0].item() == 2


def test_several_faults_can_be_met_by_one_event() -> None:
    x = square()
    before = len(faults_met())
    with (
        planned_faults(Fault("slow", op="mm", seconds=0.001), Fault("raise", op="mm")),
        pytest.raises(RuntimeError, match="it was planned"),
    ):
        torch.mm(x, x)

    assert [met.fault.kind for met in faults_met()[before:]] == ["slow", "raise"]


def met_of_200(probability: float, seed: int, noise: bool = False) -> list[int]:
    x, met = square(), []
    with planned_faults(Fault("corrupt", op="add", probability=probability, seed=seed, times="always", value=0)):
        for number in range(200):
            if noise:
                torch.rand(3, device=x.device).mul_(2)
            if (x + 1)[0, 0].item() == 0:
                met.append(number)
    return met


def test_same_seed_gives_the_same_faults() -> None:
    first = met_of_200(0.2, seed=3)

    assert met_of_200(0.2, seed=3, noise=True) == first
    assert met_of_200(0.2, seed=4) != first
    assert 20 <= len(first) <= 60
    assert len(met_of_200(1, seed=3)) == 200


def test_another_rank_draws_other_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    first = met_of_200(0.2, seed=3)
    monkeypatch.setenv("RANK", "1")

    assert met_of_200(0.2, seed=3) != first


def test_rank_without_a_group_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    x = square()
    with planned_faults(Fault("raise", op="add", rank=3)):
        torch.add(x, x)
        monkeypatch.setenv("RANK", "3")
        with pytest.raises(RuntimeError, match="it was planned"):
            torch.add(x, x)
