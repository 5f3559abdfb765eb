"""The operator by which DeepSpeed steps the Adam of its configuration: its steps are torch's."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.usefixtures("sdaa")
def test_fused_adam_steps_as_torchs_does(decoupled: bool) -> None:
    torch.manual_seed(1)
    start, gradients = torch.randn(3, 4), torch.randn(5, 3, 4)
    expected = torch.nn.Parameter(start.clone())
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    optimizer = kind([expected], lr=1e-2, weight_decay=0.1)
    weight = start.to("sdaa")
    average, square = torch.zeros_like(weight), torch.zeros_like(weight)

    for step, gradient in enumerate(gradients, start=1):
        expected.grad = gradient
        optimizer.step()
        torch.ops.sdaa.fused_adam(
            [gradient.to("sdaa")], [weight], [average], [square], [], 0.9, 0.999, 1e-8, 1e-2, 0.1, decoupled, step, 1
        )

    torch.testing.assert_close(weight.cpu(), expected.data)
