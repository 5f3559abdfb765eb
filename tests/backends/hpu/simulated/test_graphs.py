"""HPU graphs, which lazy mode alone has, and their wrappers as users' scripts call them."""

from __future__ import annotations

import pytest
import torch.distributed as dist
from tests.backends.simulation.processes import Run

import northbridge
from northbridge_hpu.acceleration import HPUAcceleration

SCRIPT = """
import copy
hpu = habana_frameworks.torch.hpu
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to("hpu")
batches = [torch.randn(rows, 4, device="hpu") for rows in (6, 6, 3, 6)]

def train(model, batches):
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.1), []
    for batch in batches:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        htcore.mark_step()
        losses.append(loss.item())
    return losses

plain, cached, other, graphed = (copy.deepcopy(model) for _ in range(4))
expected = train(plain, batches)
htcore.hpu.ModuleCacher(max_graphs=10)(model=cached, inplace=True)
other = hpu.ModuleCacher()(other, inplace=False, have_grad_accumulation=True, verbose=True)
print(train(cached, batches) == expected, train(other, batches) == expected)
graphed = hpu.make_graphed_callables(graphed, (batches[0],))
print(train(graphed, batches[:2]) == expected[:2])

evaluated = hpu.wrap_in_hpu_graph(model.eval(), disable_tensor_cache=True)
with torch.no_grad():
    print(torch.equal(evaluated(batches[0]), evaluated(batches[0], bypass_hpu_graphs=True)))
evaluated.clear_cache()

graph, given = hpu.HPUGraph(), torch.ones(2, device="hpu")
graph.replay()
with hpu.graph(graph):
    doubled = given * 2
    print(hpu.is_current_stream_capturing())
given.fill_(5.0)
graph.replay()
print(doubled.tolist(), hpu.is_current_stream_capturing())
"""


def test_wrappers_train_as_the_model_does(run: Run) -> None:
    said = run(SCRIPT, PT_HPU_LAZY_MODE="1")
    assert said.splitlines() == ["True True", "True", "True", "True", "[10.0, 10.0] False"]


def test_eager_mode_has_none_and_says_why(run: Run) -> None:
    program = """
    import northbridge
    backend = northbridge.get("hpu")
    print(hasattr(torch.hpu, "HPUGraph"), backend.present_capabilities().graphs.answer)
    try:
        backend.acceleration.graph()
    except northbridge.UnsupportedError as error:
        print(error)
    """
    assert run(program, PT_HPU_LAZY_MODE="0").splitlines() == [
        "False no",
        "the vendor's graphs need lazy mode, and this is eager mode. Fix: set PT_HPU_LAZY_MODE=1",
    ]


def test_several_ranks_need_lazy_collectives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("habana_frameworks.torch.utils.internal.is_lazy", lambda: True)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.delenv("PT_HPU_ENABLE_LAZY_COLLECTIVES", raising=False)
    with pytest.raises(northbridge.UnsupportedError, match="Fix: set PT_HPU_ENABLE_LAZY_COLLECTIVES=true"):
        HPUAcceleration().graph()
