"""Faults on purpose: each kind, wherever it can be met, and what other ranks see of it."""

from __future__ import annotations

import math
import os
import re
import signal
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.backends.cpu_sim.conftest import Ranks
from tests.scripts import start_python

from northbridge_cpu_sim import Fault, count_step, faults_met, planned_faults

pytestmark = pytest.mark.usefixtures("chip")


def square(device: str = "cpu_sim:0") -> torch.Tensor:
    return torch.ones(4, 4, device=device)


def test_an_operation_raises_and_says_that_it_was_planned(capfd: pytest.CaptureFixture[str]) -> None:
    x = square()
    with planned_faults(Fault("raise", op="mm"), Fault("raise", op="add", message="bus error")):
        with pytest.raises(RuntimeError) as caught:
            torch.mm(x, x)
        with pytest.raises(RuntimeError, match=r"^bus error, in aten::add on cpu_sim:0: it was planned"):
            torch.add(x, x)
        product = x @ x

    planned = "raise op=aten::mm, of planned_faults"
    assert str(caught.value) == (f"the simulated chip failed, in aten::mm on cpu_sim:0: it was planned ({planned})")
    bus_error = "raise op=aten::add message='bus error', of planned_faults"
    assert capfd.readouterr().err.splitlines() == [
        f"northbridge: planned fault: raise, at step 0, in aten::mm, rank 0 ({planned})",
        f"northbridge: planned fault: raise, at step 0, in aten::add, rank 0 ({bus_error})",
    ]
    assert product.flatten().tolist() == [4.0] * 16


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


def copy_there_later() -> torch.Tensor:
    there = torch.ones(2).pin_memory().to("cpu_sim:0", non_blocking=True)
    torch.accelerator.synchronize("cpu_sim:0")
    return there


def add_to_a_list() -> torch.Tensor:
    torch.ops.aten._foreach_add_([x := zeros(2)], 1.0)
    return x


def normalize() -> torch.Tensor:
    """Its first results are arguments, which are not changed."""
    mean, variance = zeros(2), torch.ones(2, device="cpu_sim:0")
    x = torch.ones(3, 2, device="cpu_sim:0")
    given: torch.Tensor = torch.ops.aten._native_batch_norm_legit(x, None, None, mean, variance, True, 1.0, 1e-5)[0]
    assert mean.tolist() == [1.0, 1.0]
    return given


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, device="cpu_sim:0")


CORRUPTED: dict[str, tuple[Fault, Callable[[], torch.Tensor], list[float]]] = {
    "the element": (Fault("corrupt", op="add", value=7, element=2), lambda: zeros(3) + 1, [1, 1, 7]),
    "a bit": (Fault("corrupt", op="add", bit=31, element=1), lambda: zeros(3) + 1, [1, -1, 1]),
    "integers, which have no nan": (Fault("corrupt", op="add"), lambda: zeros(2).long() + 4, [5, 4]),
    "along the tensor": (
        Fault("corrupt", op="add_", value=5, element=1),
        lambda: zeros(2, 3).t().add_(1),
        [1, 5, 1, 1, 1, 1],
    ),
    "what is written": (Fault("corrupt", op="_foreach_add_", value=9), add_to_a_list, [9, 1]),
    "results": (Fault("corrupt", op="_native_batch_norm_legit", value=9), normalize, [9, 0, 0, 0, 0, 0]),
    "a deferred copy": (Fault("corrupt", op="copy_", value=3), copy_there_later, [3, 1]),
    "to the CPU": (Fault("corrupt", op="copy_", value=3), lambda: zeros(2).cpu(), [3, 0]),
}


@pytest.mark.parametrize("case", CORRUPTED)
def test_a_result_is_changed_in_one_element(case: str) -> None:
    fault, compute, expected = CORRUPTED[case]

    with planned_faults(fault):
        assert compute().flatten().tolist() == expected


def test_a_result_is_changed_to_nan() -> None:
    with planned_faults(Fault("corrupt", op="add")):
        one, two = (zeros(2) + 1).tolist()

    assert (math.isnan(one), two) == (True, 1.0)


def test_a_recurrent_layer_is_one_operation() -> None:
    layer = torch.nn.LSTM(2, 3).to("cpu_sim:0")
    x, state = torch.ones(1, 1, 2, device="cpu_sim:0"), (zeros(1, 1, 3), zeros(1, 1, 3))
    with planned_faults(Fault("raise", op="lstm")), pytest.raises(RuntimeError, match="in aten::lstm on cpu_sim:0"):
        layer(x, state)
    with planned_faults(Fault("corrupt", op="lstm", value=7)):
        assert layer(x, state)[0].flatten().tolist()[0] == 7.0
    with planned_faults(Fault("lose", device=0)):
        with pytest.raises(RuntimeError, match="was lost"):
            torch.accelerator.synchronize("cpu_sim:0")
        with pytest.raises(RuntimeError, match=r"was lost .* and aten::lstm needs it"):
            layer(x, state)


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


def test_same_seed_gives_the_same_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    first = met_of_200(0.2, seed=3)

    assert met_of_200(0.2, seed=3, noise=True) == first
    assert met_of_200(0.2, seed=4) != first
    assert 20 <= len(first) <= 60
    assert len(met_of_200(1, seed=3)) == 200

    monkeypatch.setenv("RANK", "1")
    assert met_of_200(0.2, seed=3) != first


def test_rank_without_a_group_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    x = square()
    with planned_faults(Fault("raise", op="add", rank=3)):
        torch.add(x, x)
        monkeypatch.setenv("RANK", "3")
        with pytest.raises(RuntimeError, match="it was planned"):
            torch.add(x, x)


# --- Faults that end, stop or mislead a process, and what the other ranks see of it

VARIABLE = "NORTHBRIDGE_CPU_SIM_FAULTS"
PROGRAMS = Path(__file__).parents[1] / "csrc" / "collective" / "failing_programs.py"
LIMIT_S = 120.0


def test_a_rank_is_killed_at_its_step_and_the_survivor_says_so(start_ranks: Callable[..., Ranks]) -> None:
    ranks = start_ranks("train", environ={VARIABLE: "kill rank=1 step=3"}, programs=PROGRAMS)

    survivor, killed = ranks.said(0), ranks.said(1)

    assert [ranks.status(0), ranks.status(1)] == [1, -signal.SIGKILL]
    assert re.search(
        r"^northbridge: planned fault: kill, at step 3, in [\w:]+, rank 1"
        r" \(kill rank=1 step=3, of NORTHBRIDGE_CPU_SIM_FAULTS\)$",
        killed,
        flags=re.M,
    )
    assert "planned" not in survivor
    assert "simccl's all_reduce on rank 0 of 2 failed" in survivor
    assert all("steps 3" in said and "steps 4" not in said for said in (survivor, killed))


def test_collectives_meet_faults_by_their_number_in_their_group(on_ranks: Callable[..., list[str]]) -> None:
    plan = "corrupt op=all_reduce seq=2 rank=1 value=-1; corrupt op=all_reduce seq=4 value=-4; slow seq=3 op=all_reduce"
    first, second = on_ranks("meet_collectives", environ={VARIABLE: f"{plan} seconds=0.01"}, programs=PROGRAMS)

    assert re.findall(r"^reduced (.*)$", first, flags=re.M) == ["[2.0, 2.0]", "[2.0, 2.0]", "[2.0, 2.0]"]
    assert re.findall(r"^reduced (.*)$", second, flags=re.M) == ["[2.0, 2.0]", "[-1.0, 2.0]", "[2.0, 2.0]"]
    for said in (first, second):
        assert "future [[-4.0, 2.0]]" in said
        assert "another group [2.0, 2.0]" in said
        assert "RuntimeError: the simulated chip failed, in all_gather_into_tensor on cpu_sim:" in said
        assert "OutOfMemoryError: cpu_sim:" in said
    assert (
        "northbridge: planned fault: corrupt, at step 0, in all_reduce (call 2 of its group), rank 1"
        " (corrupt rank=1 op=all_reduce seq=2 value=-1.0, of NORTHBRIDGE_CPU_SIM_FAULTS)\n"
    ) in second
    assert "('slow op=all_reduce seq=3 seconds=0.01', 1, 'all_reduce', 3)" in second


@pytest.mark.parametrize(("number", "ends"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)])
def test_a_hung_process_can_be_ended(number: signal.Signals, ends: int) -> None:
    program = """
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which the tests may run without, in the background
        import northbridge, torch
        northbridge.load("cpu_sim")
        x = torch.ones(2, device="cpu_sim")
        x + x
        print("not reached")
    """
    with start_python("-c", textwrap.dedent(program), environ={**os.environ, VARIABLE: "hang op=add"}) as hung:
        assert hung.stderr is not None
        line = next(line for line in hung.stderr if "planned fault" in line)
        hung.send_signal(number)
        try:
            said, error = hung.communicate(timeout=LIMIT_S)
        finally:
            hung.kill()

    assert line.startswith("northbridge: planned fault: hang, at step 0, in aten::add, rank 0 (hang op=aten::add, of")
    assert (hung.returncode, said) == (ends, "")
    assert ("KeyboardInterrupt" in error) is (number == signal.SIGINT)


def test_context_may_come_before_the_chip(in_fork: Callable[..., str]) -> None:
    said = in_fork(
        """
        import northbridge
        from northbridge_cpu_sim import Fault, faults_met, planned_faults
        with planned_faults(Fault("corrupt", op="add", value=5)):
            assert faults_met() == ()
            northbridge.load("cpu_sim")
            import torch
            x = torch.zeros(1, device="cpu_sim")
            print((x + 1).item(), (x * 1).item())
        print((x + 1).item(), (x * 1).item())
        """,
        load=False,
        **{VARIABLE: "corrupt op=mul value=7 after=1"},
    )

    assert said.splitlines() == ["5.0 0.0", "1.0 7.0"]


def test_a_result_is_changed_after_its_conversion_back(on_flint: Callable[..., list[str]]) -> None:
    said = on_flint(
        """
        import torch.distributed as dist
        install(device)
        assert "int32" not in device.collective.reduces.natively
        dist.init_process_group(device.collective.name, store=dist.HashStore(), rank=0, world_size=1)
        x = torch.ones(2, dtype=torch.int32, device="flint")
        for _ in range(2):
            dist.all_reduce(x)
            print(x.tolist())
        """,
        **{VARIABLE: "corrupt op=all_reduce seq=2 value=7"},
    )

    assert said == ["[1, 1]", "[7, 1]"]
