"""The process that runs one operation many times: ``python -m bench.operation_worker``, asked on its stdin."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from bench.job import Answers, questions

Call = Callable[[], object]


def _add(numbers: int, device: str) -> Call:
    left, right = torch.ones(numbers, device=device), torch.ones(numbers, device=device)
    return lambda: left + right


def _view(device: str) -> Call:
    square = torch.ones(64, 64, device=device)
    return lambda: square.view(32, 128)


def _multiply(device: str) -> Call:
    square = torch.ones(64, 64, device=device)
    return lambda: torch.mm(square, square)


def _backward(device: str) -> Call:
    """One backward through one operation: what it takes beyond its own kernels is the engine's way to the device."""
    weight = torch.ones(4, device=device, requires_grad=True)
    ones = torch.ones(4, device=device)
    product: Tensor = weight * ones
    return lambda: torch.autograd.grad(product, weight, ones, retain_graph=True)


def _step(device: str) -> Call:
    """A training step of about 200 operations, each on a few hundred numbers."""
    layers = [layer for _ in range(12) for layer in (torch.nn.Linear(16, 16), torch.nn.LayerNorm(16), torch.nn.GELU())]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batch = torch.randn(16, 16, device=device)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def _captured_step(device: str) -> Call:
    step, graph = _step(device), torch.accelerator.Graph()
    step()  # the optimizer's state is created before the capture
    with graph:
        step()
    return graph.replay


OPERATIONS: dict[str, Callable[[str], Call]] = {
    "add-4": lambda device: _add(4, device),
    "add-million": lambda device: _add(1_000_000, device),
    "view": _view,
    "mm-64": _multiply,
    "backward": _backward,
    "step": _step,
    "captured-step": _captured_step,
}


def seconds(call: Call, calls: int) -> float:
    """Return how long one of so many calls took."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def main() -> None:
    """Answer each question with the seconds of one call."""
    answers = Answers.capture_stdout()
    made: dict[tuple[str, str], Call] = {}
    for question in questions():
        operation, device = question["operation"], question["device"]
        if device == "cpu_sim":
            import northbridge

            northbridge.load(device)
        call = made.setdefault((operation, device), OPERATIONS[operation](device))
        answers.give({"seconds": seconds(call, question["calls"])})


if __name__ == "__main__":
    main()
