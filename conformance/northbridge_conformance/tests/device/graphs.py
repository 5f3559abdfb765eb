"""Graphs: those of torch.compile, the vendor's own counts of them, and work that is captured once and replayed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

import northbridge
from northbridge.graphs.capture import capturing
from northbridge.lightning.blocks import compile_blocks
from northbridge.lightning.strategies.compilation import reject_compiler
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.device.one_device import OneDevice, gradient_of, reject_without

_UNKNOWN = "northbridge_knows_no_such_option"


class CompiledFunctions(OneDevice):
    """A compiled model computes as the plain one, and is compiled once for each kind of shape."""

    watches_operators: ClassVar[bool] = False
    claims: tuple[str, ...] = ("compile",)
    advice = (
        "Look at the backend of torch.compile that your bridge names: whether torch has it after load(), and what it"
        ' makes of a graph. If the chip has none, claim compile=northbridge.no("the reason").'
    )

    @pytest.fixture
    def named(self, backend: str, device: torch.device) -> Iterator[str]:
        """The backend's name. Raises :class:`UnsupportedError` unless torch has it."""
        chip = northbridge.get(backend)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what torch.compile imports
            name = chip.bridge.compile_backend
            if name is None or name not in torch.compiler.list_backends(exclude_tags=None):
                reason = chip.present_capabilities().compile.reason or f"torch has no backend {name!r}"
                raise northbridge.UnsupportedError(f"{backend!r} compiles nothing: {reason}", capability="compile")
            torch.compiler.reset()
            yield name
            torch.compiler.reset()

    def test_compiled_loss_and_gradients_match_the_plain_model(self, device: torch.device, named: str) -> None:
        net = _net().to(device)
        given = torch.linspace(-1, 1, 12, device=device).view(3, 4)

        plain = _gradients(net, net, given)
        compiled = _gradients(torch.compile(net, backend=named), net, given)

        assert all(torch.allclose(one, other, rtol=1e-5, atol=1e-6) for one, other in zip(plain, compiled, strict=True))

    def test_four_batch_sizes_compile_two_graphs(self, device: torch.device, named: str) -> None:
        compiled: Any = torch.compile(nn.Linear(4, 2).to(device), backend=named)
        count_graphs()

        counts = []
        for rows in (3, 3, 5, 7, 9):
            compiled(torch.ones(rows, 4, device=device))
            counts.append(count_graphs())

        assert counts == [1, 0, 1, 0, 0]  # the second size makes the number of rows a symbol

    def test_equal_blocks_share_a_graph(self, device: torch.device, named: str) -> None:
        net = nn.Sequential(nn.Linear(4, 4), *(_Block() for _ in range(4))).to(device)
        given = torch.ones(2, 4, device=device)
        plain = _gradients(net, net, given)

        compile_blocks(net, backend=named)
        count_graphs()
        compiled = _gradients(net, net, given)

        assert count_graphs() == 1
        assert all(torch.allclose(one, other, rtol=1e-5, atol=1e-6) for one, other in zip(plain, compiled, strict=True))

    def test_unknown_compile_option_raises(self, backend: str, named: str) -> None:
        chip = northbridge.get(backend)
        if not chip.acceleration.compile_options():
            return  # the options are the backend's own matter

        with pytest.raises(northbridge.UnsupportedError, match=f"has no option '{_UNKNOWN}'"):
            reject_compiler(chip, {"backend": named, "options": {_UNKNOWN: True}})


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, given: Tensor) -> Tensor:
        return given + self.layer(given).relu()  # type: ignore[no-any-return]  # the layer's


def _net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 1))


def _gradients(called: Any, net: nn.Module, given: Tensor) -> list[Tensor]:
    """Return the loss of ``called``, and the gradients of ``net``."""
    net.zero_grad()
    loss = called(given).square().mean()
    loss.backward()
    return [loss.detach().cpu(), *(gradient_of(each).cpu().clone() for each in net.parameters())]


def count_graphs() -> int:
    """Return the number of graphs that torch has compiled since the last count, and count anew."""
    from torch._dynamo.utils import counters  # imported by torch.compile itself, in seconds

    found = counters["stats"]["unique_graphs"]
    counters.clear()
    return int(found)


SIZES = (5, 5, 5, 7, 7, 5, 7)
"""The batch size of each step. What is done in a first step alone is compiled in one of the first three."""

_NEW = SIZES.index(7)


class Compilations(OneDevice):
    """A count of the vendor's grows with a new shape, does not grow with a known one, and never shrinks."""

    watches_operators: ClassVar[bool] = False
    advice = (
        "Look at Acceleration.compilations(): it returns totals of the process, of which one grows when a graph is"
        " compiled. Return nothing if the vendor's software does not count."
    )

    @shows("recompilation")
    def test_compile_count_grows_only_with_new_shapes(self, backend: str, device: torch.device) -> None:
        reject_without(backend, "recompilation")
        chip = northbridge.get(backend)

        counts = []
        for size in SIZES:
            _step(chip.bridge, device, size)
            counts.append(dict(chip.acceleration.compilations()))

        # The empty counts of a chip without any are equal too.
        assert [sorted(each) for each in counts] == [sorted(counts[0])] * len(SIZES)
        grown = {name: [after[name] - before[name] for before, after in pairwise(counts)] for name in counts[0]}
        assert [name for name, numbers in grown.items() if min(numbers) < 0] == []
        follow = [name for name, numbers in grown.items() if numbers[_NEW - 1] > 0 and not any(numbers[_NEW:])]
        assert follow or not grown, grown


def _step(bridge: northbridge.Bridge, device: torch.device, size: int) -> None:
    weight = torch.ones(3, 11, device=device, requires_grad=True)
    inputs = torch.ones(size, 3).to(device)
    torch.autograd.backward((inputs @ weight).relu().sum())
    bridge.after_backward()
    with torch.no_grad():
        weight -= 0.1 * weight
    bridge.after_step()


class Graphs(OneDevice):
    """A replay does the captured work on what its memory holds by then, and is refused on a chip without graphs."""

    watches_operators: ClassVar[bool] = False
    claims: tuple[str, ...] = ("graphs",)
    advice = (
        "Acceleration.graph() returns an empty graph, whose replay() does the captured work again on the same memory."
        " The default is torch's own, which a chip registers with GraphImplRegistry."
    )

    def test_replay_reads_the_current_input(self, backend: str, device: torch.device) -> None:
        graph = northbridge.get(backend).acceleration.graph()
        given = torch.ones(3, device=device)

        with capturing(graph):
            doubled = given * 2
            doubled.add_(1)

        for value in (5.0, 7.0):
            given.fill_(value)
            graph.replay()
            assert doubled.tolist() == [2 * value + 1] * 3

    def test_each_replay_draws_new_random_numbers(self, backend: str, device: torch.device) -> None:
        graph = northbridge.get(backend).acceleration.graph()

        with capturing(graph):
            drawn = torch.rand(32, device=device)

        found = []
        for _ in range(3):
            graph.replay()
            found.append(tuple(drawn.tolist()))
        assert len(set(found)) == 3

    def test_graphed_model_trains_like_the_plain_model(self, backend: str, device: torch.device) -> None:
        chip = northbridge.get(backend)
        if chip.present_capabilities().graphs.denied:
            northbridge.GraphedCallable(nn.Identity(), backend=chip)  # which raises
        torch.manual_seed(0)
        plain = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2)).to(device)
        graphed = deepcopy(plain)
        call = northbridge.GraphedCallable(graphed, backend=chip)
        batches = [torch.randn(rows, 4, device=device) for rows in (6, 6, 3, 6, 3)]

        for model, run in ((plain, plain), (graphed, call)):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            for batch in batches:
                optimizer.zero_grad()
                run(batch).square().mean().backward()
                optimizer.step()

        assert call.graphs == 2
        for expected, found in zip(plain.state_dict().values(), graphed.state_dict().values(), strict=True):
            torch.testing.assert_close(found.cpu(), expected.cpu())

    def test_a_failed_capture_leaves_the_chip_usable(self, backend: str, device: torch.device) -> None:
        acceleration = northbridge.get(backend).acceleration
        given = torch.ones(3, device=device)

        graph = acceleration.graph()
        with pytest.raises(ZeroDivisionError), capturing(graph):
            raise ZeroDivisionError(given + 1)

        assert (given + 1).tolist() == [2.0] * 3
        again = acceleration.graph()
        with capturing(again):
            doubled = given * 2
        again.replay()
        assert doubled.tolist() == [2.0] * 3

    def test_reading_a_value_during_capture_raises(self, backend: str, device: torch.device) -> None:
        graph = northbridge.get(backend).acceleration.graph()
        given = torch.ones(3, device=device)

        with pytest.raises(RuntimeError), capturing(graph):
            given.sum().item()

        assert given.sum().item() == 3
