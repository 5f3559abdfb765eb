"""A callable that is captured once for each signature, on the simulated chip."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from tests.core.conftest import make_backend
from torch import Tensor, nn

import northbridge
from northbridge import GraphedCallable, GraphWarning, UnsupportedError


@pytest.fixture(autouse=True)
def chip() -> northbridge.Backend:
    return northbridge.load("cpu_sim")


@pytest.fixture
def model(chip: northbridge.Backend) -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)
    return nn.Sequential(*layers).to("cpu_sim")


def rows(number: int = 6) -> Tensor:
    return torch.randn(number, 4, device="cpu_sim")


def train(model: nn.Module, run: Any) -> list[list[float]]:
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    found = []
    for number in (6, 6, 3, 6, 3):
        batch = rows(number).requires_grad_()
        optimizer.zero_grad()
        run(batch).square().mean().backward()
        optimizer.step()
        assert batch.grad is not None
        found.append(batch.grad.flatten().tolist())
    return found


def test_training_is_equal_to_the_bit(model: nn.Module) -> None:
    plain = deepcopy(model)
    graphed = GraphedCallable(model)

    assert train(model, graphed) == train(plain, plain)
    for expected, found in zip(plain.state_dict().values(), model.state_dict().values(), strict=True):
        assert torch.equal(expected, found)
    assert graphed.graphs == 2


def test_modes_have_graphs_of_their_own(model: nn.Module) -> None:
    graphed = GraphedCallable(model)
    batch = rows()
    graphed(batch)
    model.eval()
    with torch.no_grad():
        assert torch.equal(graphed(batch), model(batch))
        with torch.autocast("cpu_sim", torch.bfloat16):
            assert torch.equal(graphed(batch), model(batch))
    assert graphed.graphs == 3


def test_autocast_follows_the_weights(model: nn.Module) -> None:
    graphed = GraphedCallable(model.eval())
    with torch.autocast("cpu_sim", torch.bfloat16), torch.no_grad():
        batch = rows()
        model(batch)  # its casts are cached
        graphed(batch)
    for parameter in model.parameters():
        parameter.data.mul_(2)
    with torch.autocast("cpu_sim", torch.bfloat16), torch.no_grad():
        assert torch.equal(graphed(batch), model(batch))


def test_nested_values_keywords_and_other_results() -> None:
    def function(pair: dict[str, Tensor], *, scale: int) -> tuple[Tensor, str, list[Tensor]]:
        return pair["a"] * scale, "text", [pair["b"] + 1]

    graphed, added = GraphedCallable(function), GraphedCallable(lambda given: given + 1)
    first, _ = added(rows() * 0), added(rows())
    assert first.unique().tolist() == [1]  # results survive the next call
    for scale in (2, 3, 2):
        a, text, (b,) = graphed({"a": rows(1) * 0 + scale, "b": rows(1) * 0}, scale=scale)
        assert a.tolist() == [[scale**2] * 4]
        assert text == "text"
        assert b.tolist() == [[1] * 4]
    assert graphed.graphs == 2


def test_bound_warns_once_and_runs_without_a_graph(model: nn.Module) -> None:
    """Or it is an error."""
    graphed = GraphedCallable(model.eval(), max_graphs=1)
    strict = GraphedCallable(model, max_graphs=1, beyond="error")
    graphed(rows(2))
    with pytest.warns(GraphWarning, match=r"the 1 that were captured \(max_graphs=1\): it runs without a graph. Fix: "):
        assert graphed(rows(3)).shape == (3, 2)
    assert graphed(rows(4)).shape == (4, 2)
    strict(rows(2))
    with pytest.raises(UnsupportedError, match="another signature than the 1 that were captured"):
        strict(rows(3))


def test_backward_of_an_earlier_call_is_an_error(model: nn.Module) -> None:
    graphed = GraphedCallable(model)
    both = graphed(rows()).sum() + graphed(rows()).sum()
    with pytest.raises(UnsupportedError, match="backward of call 1 after call 2"):
        both.backward()


def test_moved_parameters_are_an_error(model: nn.Module) -> None:
    graphed = GraphedCallable(model)
    graphed(rows())
    first = next(model.parameters())
    first.data = first.data.clone()
    with pytest.raises(UnsupportedError, match="a parameter or buffer has other memory than"):
        graphed(rows())


@pytest.mark.parametrize("kind", ["register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"])
def test_hooks_are_an_error(model: nn.Sequential, kind: str) -> None:
    getattr(model[0], kind)(lambda *_: None)
    with pytest.raises(UnsupportedError, match=r"'0' has a hook, .* in no replay. Fix: remove it"):
        GraphedCallable(model)(rows())


class Counting(nn.Module):
    calls = 0

    def forward(self, given: Tensor) -> Tensor:
        self.calls += 1
        return given + self.calls


def with_bias() -> nn.Module:
    return nn.Linear(4, 2).to("cpu_sim")


def with_buffer() -> nn.Module:
    model = with_bias()
    model.register_buffer("extra", rows().requires_grad_())
    return model


@pytest.mark.parametrize(
    ("make", "arguments", "told"),
    [
        (with_buffer, lambda: [rows()], "the buffer 'extra' requires a gradient"),
        (Counting, lambda: [rows()], "'calls' got another value in Python, as in no replay"),
        (lambda: lambda *_: None, lambda: [rows(), {1}], "a graph cannot take a set"),
        (with_bias, lambda: [torch.ones(2, 4)], r"an argument is on cpu, .* Fix: move it to 'cpu_sim' before"),
        (lambda: nn.Linear(4, 2), lambda: [rows()], "a parameter or buffer is on cpu"),
        (lambda: lambda given: given.add_(1), lambda: [rows()], "an argument is changed in place: .* Fix: change a"),
    ],
    ids=["buffer", "attribute", "value", "argument elsewhere", "parameter elsewhere", "in place"],
)
def test_work_that_no_replay_would_do_is_an_error(make: Any, arguments: Any, told: str) -> None:
    with pytest.raises(UnsupportedError, match=told):
        GraphedCallable(make())(*arguments())


def test_parameter_of_no_module_is_an_error(model: nn.Module) -> None:
    """Also if an argument gets a gradient, so that torch would raise nothing."""
    inner = GraphedCallable(model)  # nor may a graph be within another
    cases: list[tuple[Any, Tensor]] = [(model, rows()), (model, rows().requires_grad_()), (inner, rows())]
    for function, batch in cases:
        with pytest.raises(UnsupportedError, match=r"shape \(.*\) would get no gradient: .* graph the module"):
            GraphedCallable(lambda given, function=function: function(given))(batch)


def test_wrong_arguments_and_chips_that_deny_graphs_are_errors() -> None:
    plain = make_backend("plain", capabilities=northbridge.Capabilities(graphs=northbridge.no("it has none")))
    with pytest.raises(UnsupportedError, match=r"'plain' cannot capture graphs: it has none. Fix: run without graphs"):
        GraphedCallable(abs, backend=plain)
    wrong: list[dict[str, Any]] = [{"max_graphs": 0}, {"beyond": "stop"}]
    for arguments in wrong:
        with pytest.raises(northbridge.ArgumentsError):
            GraphedCallable(abs, **arguments)
    with pytest.raises(northbridge.ArgumentsError, match=r"a Tensor cannot be called. Fix: pass a function"):
        GraphedCallable(rows())  # type: ignore[arg-type]
