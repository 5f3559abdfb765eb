"""Autograd and autocast on the chip, and the modes of torch around a model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

jvp: Any = torch.func.jvp
determinism: Any = torch.utils.deterministic


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # of torch.func.jvp's own; of one kind or another by release
def test_functional_transforms_give_the_cpus_numbers(chip: ModuleType) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = torch.randn(5, 3)

    def everything(device: str) -> list[Tensor]:
        parameters = {name: value.detach().to(device) for name, value in module.named_parameters()}
        on = x.to(device)

        def loss(values: dict[str, Tensor], row: Tensor) -> Tensor:
            result: Tensor = torch.func.functional_call(module, values, (row,)).square().sum()
            return result

        one_by_one = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, on)
        jacobian = torch.func.vmap(
            torch.func.jacrev(lambda row: torch.func.functional_call(module, parameters, (row,)))
        )
        hessian = torch.func.hessian(lambda row: loss(parameters, row))
        _, forward = jvp(lambda row: loss(parameters, row), (on[0],), (torch.ones_like(on[0]),))
        return [*one_by_one.values(), jacobian(on), hessian(on[0]), forward]

    here, there = everything("cpu_sim:1"), everything("cpu")

    assert {value.device for value in here} == {torch.device("cpu_sim:1")}
    for got, expected in zip(here, there, strict=True):
        torch.testing.assert_close(got.cpu(), expected)


def test_what_is_saved_for_backward_can_wait_on_the_cpu(chip: ModuleType) -> None:
    x = torch.full((1 << 16,), 2.0, device="cpu_sim:1", requires_grad=True)
    before = chip.memory_allocated(1)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = x * x
    assert chip.memory_allocated(1) - before == y.nbytes

    torch.autograd.backward(y.sum())
    assert x.grad is not None
    assert x.grad.device == x.device
    assert set(x.grad.tolist()) == {4.0}


@pytest.fixture
def deterministic() -> Iterator[None]:
    before = determinism.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    determinism.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)
    determinism.fill_uninitialized_memory = before


@pytest.mark.usefixtures("chip", "deterministic")
@pytest.mark.parametrize(
    "make",
    [
        lambda dtype: torch.empty(5, device="cpu_sim", dtype=dtype),
        lambda dtype: torch.empty_strided((5,), (2,), device="cpu_sim", dtype=dtype),
        lambda dtype: torch.empty_like(torch.ones(5, device="cpu_sim", dtype=dtype)),
        lambda dtype: torch.zeros(2, device="cpu_sim", dtype=dtype).resize_(7)[2:],
    ],
    ids=["empty", "empty_strided", "empty_like", "resize_"],
)
def test_in_deterministic_mode_new_memory_is_filled(make: Callable[[torch.dtype], Tensor]) -> None:
    assert make(torch.float32).isnan().all()
    assert set(make(torch.int16).tolist()) == {torch.iinfo(torch.int16).max}


def test_backward_runs_on_the_calling_thread_by_default(chip: ModuleType) -> None:
    seen: list[tuple[int, int]] = []

    def backward() -> None:
        x = torch.ones(2, device="cpu_sim", requires_grad=True)
        register_hook: Any = (y := x * 2).register_hook  # untyped
        caller = threading.get_ident()
        register_hook(lambda grad: seen.append((caller, threading.get_ident())))
        torch.autograd.backward(y.sum())

    thread = threading.Thread(target=backward)
    thread.start()
    thread.join()
    backward()

    assert len(seen) == 2
    assert all(caller == found for caller, found in seen)


# --- Autocast, whose lists are torch's: one operator of each

LOWERED: dict[str, Callable[[Tensor], Tensor]] = {
    "matmul": lambda x: x @ x,
    "conv2d": lambda x: functional.conv2d(x[None, None], x[None, None, :2, :2]),
    "attention": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    "lstm_cell": lambda x: nn.LSTMCell(4, 4, device=x.device)(x)[0],
}

KEPT_FULL: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp,
    "softmax": lambda x: functional.softmax(x, 0),
    "sum": torch.sum,
    "norm over a dimension": lambda x: torch.norm(x, 2, 0),
    "cross_entropy": lambda x: functional.cross_entropy(x, torch.tensor([0, 1, 2, 3], device=x.device)),
}


@pytest.mark.parametrize("name", LOWERED)
def test_autocast_lowers_what_is_safe_in_low_precision(chip: ModuleType, name: str) -> None:
    x = torch.rand(4, 4, device="cpu_sim")
    with torch.autocast("cpu_sim", dtype=torch.float16):
        assert LOWERED[name](x).dtype == torch.float16
    assert LOWERED[name](x).dtype == torch.float32


@pytest.mark.parametrize("name", KEPT_FULL)
def test_autocast_raises_what_needs_full_precision(chip: ModuleType, name: str) -> None:
    x = torch.rand(4, 4, device="cpu_sim", dtype=torch.bfloat16)
    with torch.autocast("cpu_sim", dtype=torch.bfloat16):
        assert KEPT_FULL[name](x).dtype == torch.float32


def test_autocast_promotes_mixed_arguments_to_the_widest(chip: ModuleType) -> None:
    x = torch.rand(4, device="cpu_sim")
    with torch.autocast("cpu_sim", dtype=torch.bfloat16):
        assert torch.dot(x, x.bfloat16()).dtype == torch.float32
        assert torch.cat([x, x.bfloat16()]).dtype == torch.float32


def test_the_default_dtype_and_the_cpus_autocast_stay_apart(chip: ModuleType) -> None:
    x = torch.rand(4, 4)
    with torch.autocast("cpu_sim"):
        assert (x @ x).dtype == torch.float32
        assert (x.to("cpu_sim") @ x.to("cpu_sim")).dtype == torch.get_autocast_dtype("cpu_sim")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x.to("cpu_sim") @ x.to("cpu_sim")).dtype == torch.float32
        assert functional.gelu(functional.linear(x.to("cpu_sim"), x.to("cpu_sim"))).dtype == torch.float32


def test_a_loss_that_overflows_in_low_precision_is_refused(chip: ModuleType) -> None:
    x = torch.rand(4, device="cpu_sim")
    with (
        torch.autocast("cpu_sim", dtype=torch.float16),
        pytest.raises(RuntimeError, match="use binary_cross_entropy_with_logits"),
    ):
        functional.binary_cross_entropy(x, x)


def test_a_fused_optimizer_takes_the_scaler(chip: ModuleType) -> None:
    weight = nn.Parameter(torch.ones(2, device="cpu_sim"))
    optimizer = torch.optim.SGD([weight], 0.5, fused=True)
    scaler = torch.amp.GradScaler("cpu_sim", init_scale=4.0)
    for factor, expected in ((1.0, 0.5), (float("inf"), 0.5)):
        optimizer.zero_grad()
        torch.autograd.backward(scaler.scale((weight * factor).sum()))
        scaler.step(optimizer)
        scaler.update()
        assert weight.tolist() == [expected, expected]
