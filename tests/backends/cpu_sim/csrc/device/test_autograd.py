"""Autograd on the chip: which thread runs a backward, and what `Module.to` does to parameters."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn


def in_thread(work: Callable[[], Tensor]) -> Tensor:
    results: list[Tensor] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    assert results, "the thread raised"
    return results[0]


def test_a_backward_works_from_any_thread(chip: ModuleType) -> None:
    x = torch.arange(4.0, device="cpu_sim:1", requires_grad=True)
    y = x * x

    def backward_here() -> Tensor:
        torch.autograd.backward(y, torch.ones(4, device="cpu_sim:1"))
        assert x.grad is not None
        return x.grad

    assert in_thread(backward_here).tolist() == [0.0, 2.0, 4.0, 6.0]


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


def test_modules_keep_their_parameters_when_they_move(chip: ModuleType) -> None:
    module = nn.Linear(2, 2)
    weight = module.weight

    module.to("cpu_sim:1")
    assert module.weight is weight
    assert weight.device == torch.device("cpu_sim:1")
    module.cpu()
    assert module.weight is weight
    assert weight.device.type == "cpu"


def test_tied_weights_stay_tied_when_they_move(chip: ModuleType) -> None:
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    second.weight = first.weight

    nn.Sequential(first, second).to("cpu_sim").to("cpu_sim:1")

    assert first.weight is second.weight
    assert first.weight.data_ptr() == second.weight.data_ptr()


def test_an_optimizer_made_before_the_move_trains_the_model(chip: ModuleType) -> None:
    module = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    module.to("cpu_sim")
    before = module.weight.detach().clone()

    torch.autograd.backward(module(torch.ones(1, 2, device="cpu_sim")).sum())
    optimizer.step()

    torch.testing.assert_close(module.weight.detach(), before - 0.1)


def test_a_gradient_made_before_the_move_moves_along(chip: ModuleType) -> None:
    module = nn.Linear(2, 1)
    torch.autograd.backward(module(torch.ones(1, 2)).sum())

    module.to("cpu_sim")
    torch.autograd.backward(module(torch.ones(1, 2, device="cpu_sim")).sum())

    assert module.weight.grad is not None
    assert module.weight.grad.device == module.weight.device
    assert module.weight.grad.tolist() == [[2.0, 2.0]]


def test_in_place_change_is_noticed_in_backward(chip: ModuleType) -> None:
    x = torch.ones(2, device="cpu_sim", requires_grad=True)
    y = x.exp()
    y.add_(1)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.backward(y.sum())


def test_second_derivatives_and_functional_transforms_work(chip: ModuleType) -> None:
    x = torch.tensor([1.0, 2.0], device="cpu_sim", requires_grad=True)

    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    jacobian = torch.func.vmap(torch.func.grad(lambda t: t**3))(x.detach())

    assert second.tolist() == [6.0, 12.0]
    assert jacobian.tolist() == [3.0, 12.0]


def test_inference_mode_and_no_grad_give_the_same_numbers(chip: ModuleType) -> None:
    module = nn.Linear(3, 3, device="cpu_sim")
    x = torch.ones(2, 3, device="cpu_sim")

    with torch.inference_mode():
        inferred = module(x).view(6)[2:].add_(1)
    with torch.no_grad():
        plain = module(x).view(6)[2:].add_(1)

    assert inferred.is_inference()
    assert torch.equal(inferred, plain)
