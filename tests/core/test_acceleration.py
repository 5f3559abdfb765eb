"""What a chip offers beyond torch's own operators: the defaults, for a chip that offers nothing."""

from __future__ import annotations

import pytest
import torch

import northbridge


class Plain(northbridge.Acceleration):
    """Of a chip that overrides nothing."""


@pytest.fixture
def plain() -> Plain:
    acceleration = Plain()
    acceleration.device_type = "cpu"
    return acceleration


def test_a_chip_without_graphs_refuses_to_capture(plain: Plain, monkeypatch: pytest.MonkeyPatch) -> None:
    def unregistered() -> None:
        raise RuntimeError("Graph is not supported on device type: cpu")

    monkeypatch.setattr(torch.accelerator, "Graph", unregistered)

    with pytest.raises(northbridge.UnsupportedError) as caught:
        plain.graph()

    assert str(caught.value) == (
        "'cpu' has registered no graph in torch: Graph is not supported on device type: cpu. Fix: run without graphs"
    )
    assert caught.value.capability == "graphs"


def test_an_older_torch_has_no_graphs(plain: Plain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.accelerator, "Graph")

    with pytest.raises(northbridge.UnsupportedError, match=r"has no torch\.accelerator\.Graph\. Fix: install torch"):
        plain.graph()


def test_gradients_are_clipped_as_torch_clips_them(plain: Plain) -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])

    norm = plain.clip_grad_norm([weight], max_norm=1.0)

    assert norm == 5
    assert torch.equal(weight.grad, torch.tensor([3.0, 4.0]) * (1 / (5 + 1e-6)))


def test_a_chip_without_a_loader_names_torchs(plain: Plain) -> None:
    with pytest.raises(northbridge.UnsupportedError) as caught:
        plain.image_loader(torch.utils.data.TensorDataset(torch.ones(2)), batch_size=1)

    assert str(caught.value) == ("'cpu' has no loader of its own for TensorDataset. Fix: torch.utils.data.DataLoader")
    assert caught.value.capability == "data_loaders"


def test_a_chip_with_nothing_of_its_own_says_so(plain: Plain) -> None:
    assert (plain.fused_optimizers(), plain.compile_options(), plain.compilations()) == ({}, {}, {})
    assert plain.float8_engines() == {}
    plain.device_type = "acme"
    assert plain.profiler_activity() is None
