"""Autograd on the chip, and the wrappers and modes of torch around a model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

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


def test_vmap_draws_one_number_for_all_or_one_for_each(chip: ModuleType) -> None:
    x = torch.zeros(16, device="cpu_sim")

    def drawn(randomness: str) -> Tensor:
        result: Tensor = torch.func.vmap(lambda row: row + torch.rand_like(row), randomness=randomness)(x)
        return result

    assert len(set(drawn("same").tolist())) == 1
    assert len(set(drawn("different").tolist())) == 16


@pytest.mark.parametrize("pin_memory", [False, True])
def test_what_is_saved_for_backward_can_wait_on_the_cpu(chip: ModuleType, pin_memory: bool) -> None:
    x = torch.ones(1 << 16, device="cpu_sim:1", requires_grad=True)
    before = chip.memory_allocated(1)

    with torch.autograd.graph.save_on_cpu(pin_memory=pin_memory):
        y = x.exp().sin().cos()
    assert chip.memory_allocated(1) - before == y.nbytes
    torch.autograd.backward(y.sum())

    assert x.grad is not None
    assert x.grad.device == x.device
    expected = torch.ones(1, requires_grad=True)
    torch.autograd.backward(expected.exp().sin().cos().sum())
    torch.testing.assert_close(x.grad[:1].cpu(), expected.grad)


def test_an_inference_tensor_is_refused_by_autograd_as_on_cuda(chip: ModuleType) -> None:
    with torch.inference_mode():
        x = torch.ones(2, device="cpu_sim")
    weight = torch.ones(2, device="cpu_sim", requires_grad=True)

    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        torch.mul(weight, x)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        x.add_(1)
    assert not x.clone().is_inference()


@contextmanager
def deterministic(fill: bool) -> Iterator[None]:
    before = determinism.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    determinism.fill_uninitialized_memory = fill
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        determinism.fill_uninitialized_memory = before


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
def test_in_deterministic_mode_new_memory_is_filled(chip: ModuleType, make: Callable[[torch.dtype], Tensor]) -> None:
    with deterministic(fill=True):
        assert make(torch.float32).isnan().all()
        assert set(make(torch.int16).tolist()) == {torch.iinfo(torch.int16).max}


def test_in_deterministic_mode_a_model_trains_as_on_the_cpu(chip: ModuleType) -> None:
    with deterministic(fill=False):
        grads = []
        for device in ("cpu", "cpu_sim"):
            weight = torch.arange(6.0, device=device).view(3, 2).requires_grad_()
            picked = weight[torch.tensor([0, 2, 0], device=device)]
            torch.autograd.backward(picked.index_add(0, torch.tensor([1], device=device), picked[:1]).exp().sum())
            assert weight.grad is not None
            grads.append(weight.grad.cpu())
        assert torch.equal(*grads)


def test_anomaly_mode_names_the_forward_line(chip: ModuleType) -> None:
    x = torch.zeros(2, device="cpu_sim", requires_grad=True)

    def rooted() -> None:
        y = x.sqrt()
        torch.autograd.backward((y * 0).sum())

    with (
        pytest.warns(UserWarning, match="Anomaly Detection has been enabled"),
        torch.autograd.detect_anomaly(check_nan=True),
        pytest.warns(UserWarning, match=r"Error detected in SqrtBackward0(?s:.*)y = x\.sqrt\(\)"),
        pytest.raises(RuntimeError, match="returned nan values"),
    ):
        rooted()


def in_thread(work: Callable[[], Tensor]) -> Tensor:
    results: list[Tensor] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    assert results, "the thread raised"
    return results[0]


def test_backward_runs_on_the_calling_thread_by_default(chip: ModuleType) -> None:
    seen: list[int] = []

    def backward() -> Tensor:
        x = torch.ones(2, device="cpu_sim", requires_grad=True)
        y = x * 2
        register_hook: Any = y.register_hook  # untyped
        register_hook(lambda grad: seen.append(threading.get_ident()))
        torch.autograd.backward(y.sum())
        return torch.tensor(threading.get_ident())

    assert in_thread(backward).item() == seen[-1]
    backward()
    assert seen[-1] == threading.get_ident()


AFTER_A_CPU_BACKWARD = """
import torch
x = torch.ones(2, requires_grad=True)
(x * x).sum().backward()

import northbridge, threading
northbridge.load("cpu_sim")

def train():
    w = torch.ones(2, device="cpu_sim", requires_grad=True)
    (w * w).sum().backward()
    print(w.grad.tolist(), flush=True)

train()
thread = threading.Thread(target=train)
thread.start()
thread.join()
"""


def test_chip_loaded_after_cpu_backward_trains(in_fresh_process: Callable[..., str]) -> None:
    said = in_fresh_process(AFTER_A_CPU_BACKWARD)

    assert said.splitlines() == ["[2.0, 2.0]"] * 2


def test_a_gradient_made_before_the_move_moves_along(chip: ModuleType) -> None:
    module = nn.Linear(2, 1)
    torch.autograd.backward(module(torch.ones(1, 2)).sum())

    module.to("cpu_sim")
    torch.autograd.backward(module(torch.ones(1, 2, device="cpu_sim")).sum())

    assert module.weight.grad is not None
    assert module.weight.grad.device == module.weight.device
    assert module.weight.grad.tolist() == [[2.0, 2.0]]
