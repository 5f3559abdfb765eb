"""A callback that checks that the ranks train one model."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import torch

from northbridge.errors import ArgumentsError, UnsupportedError, WeightsDisagreeError

_NAMED = 3
"""Number of parameters that the error names."""

_SHIFTS = (0, 16, 32, 48)


class _WeightsAgreementMixin:
    """Check every ``every_n_steps`` optimizer steps, at the start and at the end, that the ranks have equal weights.

    It is a callback for a Trainer. A Fabric has no callbacks: call :meth:`check`.

    DDP reduces gradients and does not compare weights, so a rank that steps differently trains its own model.
    Parameters are compared bit for bit, by digests sent over the chip's library. Buffers are not compared; of a sharded
    model, only parameters that are whole on each rank are.
    """

    def __init__(self, every_n_steps: int = 100) -> None:
        if every_n_steps < 1:
            raise ArgumentsError(f"every_n_steps={every_n_steps} is not 1 or more")
        self.every_n_steps = every_n_steps
        self.agreed_at: int | None = None
        """The step of the last passed check."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Check before the first step."""
        self.agreed_at = None
        self.check(trainer.strategy, pl_module, trainer.global_step)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Check after every ``every_n_steps`` steps."""
        if trainer.global_step - (self.agreed_at or 0) >= self.every_n_steps:
            self.check(trainer.strategy, pl_module, trainer.global_step)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Check after the last step."""
        if trainer.global_step != self.agreed_at:
            self.check(trainer.strategy, pl_module, trainer.global_step)

    def check(self, strategy: Any, module: torch.nn.Module, step: int) -> None:
        """Compare the weights of ``module`` after ``step``; every rank must call it. With one rank it does nothing.

        For a Fabric: ``check(fabric.strategy, module, step)``. Raises :class:`WeightsDisagreeError` on every rank.
        """
        if getattr(strategy, "world_size", 1) > 1:
            _assert_agreement(strategy, module, step, self.agreed_at)
        self.agreed_at = step


def _assert_agreement(strategy: Any, module: torch.nn.Module, step: int, agreed_at: int | None) -> None:
    digests = {name: _digest(each) for name, each in _whole_parameters(module).items()}
    total = blake2b("".join(f"{name} {digest}\n" for name, digest in digests.items()).encode(), digest_size=8)
    # Of the same length on every rank, even if the models differ.
    facts = _gather(strategy, [int.from_bytes(total.digest(), "big"), len(digests)])
    camps: dict[tuple[int, ...], list[int]] = {}
    for rank, fact in enumerate(facts):
        camps.setdefault(tuple(fact), []).append(rank)
    if len(camps) == 1:
        return
    majority = max(camps.values(), key=len)  # if sizes are equal, the group with the lowest rank
    others = [rank for rank in range(len(facts)) if rank not in majority]
    if len({count for _, count in camps}) == 1:
        rows = _gather(strategy, list(digests.values()))
        differing = [name for number, name in enumerate(digests) if len({row[number] for row in rows}) > 1]
        more = len(differing) - _NAMED
        where = f"in {', '.join(map(repr, differing[:_NAMED]))}" + (f" and {more} more" if more > 0 else "")
    else:
        counts = [f"{count} on rank {rank}" for rank, (_, count) in enumerate(facts)]
        where = f"in the number of its parameters: {', '.join(counts)}"
    raise WeightsDisagreeError(_message(others, majority, where, step, agreed_at), ranks=tuple(others))


def _message(others: list[int], majority: list[int], where: str, step: int, agreed_at: int | None) -> str:
    differ = "differs" if len(others) == 1 else "differ"
    doubt = "" if len(majority) > len(others) else " (a tie: either may be wrong)"
    before = "this was the first check" if agreed_at is None else f"equal at step {agreed_at}"
    return (
        f"the ranks' weights differ at step {step} ({before}): {_counted(others)} {differ} from"
        f" {_counted(majority)}{doubt} {where}. Fix: find what a rank does alone, such as a step behind"
        " `if trainer.is_global_zero`, or suspect the card; then resume from an earlier checkpoint"
    )


def _whole_parameters(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    from torch.distributed.tensor import DTensor

    original: torch.nn.Module = getattr(module, "module", module)  # a Fabric's wrapper lengthens the names
    parameters: dict[str, torch.Tensor] = dict(original.named_parameters())
    whole = {name: each for name, each in parameters.items() if not isinstance(each, DTensor)}
    if parameters and not whole:
        raise UnsupportedError(
            "WeightsAgreement: no parameter is on two ranks, so there is nothing to compare. Fix: leave it out",
            capability="weights agreement",
        )
    return whole


def _digest(tensor: torch.Tensor) -> int:
    numbers = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()
    return int.from_bytes(blake2b(numbers.data, digest_size=8).digest(), "big")


def _gather(strategy: Any, numbers: list[int]) -> list[list[int]]:
    """Gather the ``numbers`` of every rank, of 64 bits each, in pieces of 16 bits for chips with int32 only."""
    pieces = [[number >> shift & 0xFFFF for shift in _SHIFTS] for number in numbers]
    gathered = strategy.all_gather(torch.tensor(pieces, dtype=torch.int32, device=strategy.root_device))
    return [
        [sum(piece << shift for piece, shift in zip(number, _SHIFTS, strict=True)) for number in rank]
        for rank in gathered.tolist()
    ]


def _counted(ranks: list[int]) -> str:
    numbers = " and ".join(filter(None, [", ".join(map(str, ranks[:-1])), str(ranks[-1])]))
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {numbers}"
