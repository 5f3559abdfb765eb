"""Request more memory from the chip than it has, and continue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import northbridge

TOO_MUCH = 2**50
"""A number of bytes that no device has."""


def answer(name: str) -> dict[str, Any]:
    """Run out of memory of the backend ``name`` in several ways; return the errors and the state afterwards."""
    backend = northbridge.load(name)
    chip = backend.device
    backend.bridge.prepare_rank(index=0, local_rank=0, world_size=1)
    chip.select(0)
    device = chip.root(0)
    weights = torch.arange(1000.0, device=device)
    layer = nn.Linear(4, 4).to(device)
    narrow = torch.ones(1, device=device)
    torch.rand(1, device=device)
    chip.synchronize()
    state, before = _state(backend), _statistics(backend, device)
    ways: dict[str, Callable[[], Tensor]] = {
        "a new tensor": lambda: torch.empty(TOO_MUCH, dtype=torch.uint8, device=device),
        "a result": lambda: narrow.expand(TOO_MUCH // 4) + 1,
        "a copy": lambda: narrow.expand(TOO_MUCH // 4).clone(),
        "a growing tensor": lambda: torch.empty(0, dtype=torch.uint8, device=device).resize_(TOO_MUCH),
        "the same once more": lambda: torch.empty(TOO_MUCH, dtype=torch.uint8, device=device),
    }
    told = {way: tell(chip, ask) for way, ask in ways.items()}
    wrong_shape = tell(chip, lambda: torch.ones(2, 3, device=device) @ torch.ones(2, 3, device=device))
    chip.synchronize()
    after = _statistics(backend, device)
    chip.empty_cache()
    layer(torch.ones(2, 4, device=device)).sum().backward()
    return {
        "told": told,
        "wrong shape": wrong_shape,
        "intact": weights.cpu().tolist() == list(range(1000)),
        "small": (torch.ones(3, device=device) * 2).tolist(),
        "gradient": None if layer.weight.grad is None else layer.weight.grad.tolist(),
        "drew nothing": torch.equal(_state(backend), state),
        # Event counters may change; sizes must be those of before.
        "kept": {name: after[name] - value for name, value in before.items() if after[name] - value >= 2**20},
    }


def _state(backend: northbridge.Backend) -> Tensor:
    """Return the state of the generator that the chip draws from."""
    denied = backend.present_capabilities().random_numbers.denied
    return torch.get_rng_state() if denied else backend.device.random_state()


def _statistics(backend: northbridge.Backend, device: torch.device) -> dict[str, float]:
    denied = backend.present_capabilities().memory_stats.denied
    return {} if denied else dict(backend.device.memory_stats(device.index))


def tell(chip: northbridge.Device, ask: Callable[[], Tensor]) -> dict[str, Any]:
    """Return the error's class and message after ``ask``, and if the message is a known sign of full memory."""
    try:
        found = ask()
        found.flatten()[-1].item()  # a lazy chip makes no tensor before a number of it is read
        chip.synchronize()
    except RuntimeError as error:
        said = str(error)
        known = isinstance(error, torch.OutOfMemoryError) or any(words in said for words in chip.out_of_memory)
        return {"error": type(error).__name__, "said": said, "known": known}
    return {"error": "", "said": f"there was room for {type(found).__name__}", "known": False}
