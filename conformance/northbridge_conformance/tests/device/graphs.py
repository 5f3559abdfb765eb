"""Work that is captured once and replayed."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import nn

import northbridge
from northbridge.graphs.capture import capturing
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.tests.device.one_device import OneDevice


class Graphs(OneDevice):
    """A replay does the captured work on what its memory holds by then, and is refused on a chip without graphs."""

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
