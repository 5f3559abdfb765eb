"""Mixed precision on the chip: which operators autocast lowers, and the gradient scaler."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

LOWERED: dict[str, Callable[[Tensor], Tensor]] = {
    "matmul": lambda x: x @ x,
    "linear": lambda x: functional.linear(x, x),
    "addmm": lambda x: torch.addmm(x, x, x),
    "bmm": lambda x: torch.bmm(x[None], x[None]),
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, x),
    "conv2d": lambda x: functional.conv2d(x[None, None], x[None, None, :2, :2]),
    "conv_transpose2d": lambda x: functional.conv_transpose2d(x[None, None], x[None, None]),
    "attention": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    "prelu": lambda x: functional.prelu(x, x[0, :1]),
    "lstm_cell": lambda x: nn.LSTMCell(4, 4, device=x.device)(x)[0],
}

KEPT_FULL: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: functional.softmax(x, 0),
    "log_softmax": lambda x: functional.log_softmax(x, 0),
    "exp": torch.exp,
    "pow": lambda x: x**2,
    "sum": torch.sum,
    "cumsum": lambda x: torch.cumsum(x, 0),
    "layer_norm": lambda x: functional.layer_norm(x, (4,)),
    "mse_loss": lambda x: functional.mse_loss(x, x),
    "cross_entropy": lambda x: functional.cross_entropy(x, torch.tensor([0, 1, 2, 3], device=x.device)),
    "norm": lambda x: torch.norm(x),
    "norm over a dimension": lambda x: torch.norm(x, 2, 0),
    "prod": torch.prod,
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", LOWERED)
def test_autocast_lowers_what_is_safe_in_low_precision(chip: ModuleType, name: str, dtype: torch.dtype) -> None:
    x = torch.rand(4, 4, device="cpu_sim")

    with torch.autocast("cpu_sim", dtype=dtype):
        assert LOWERED[name](x).dtype == dtype
    assert LOWERED[name](x).dtype == torch.float32


@pytest.mark.parametrize("name", KEPT_FULL)
def test_autocast_raises_what_needs_full_precision(chip: ModuleType, name: str) -> None:
    x = torch.rand(4, 4, device="cpu_sim", dtype=torch.bfloat16)

    with torch.autocast("cpu_sim", dtype=torch.bfloat16):
        assert KEPT_FULL[name](x).dtype == torch.float32


def test_autocast_promotes_mixed_arguments_to_the_widest(chip: ModuleType) -> None:
    x = torch.rand(4, device="cpu_sim")

    with torch.autocast("cpu_sim", dtype=torch.bfloat16):
        assert torch.dot(x, x.bfloat16()).dtype == torch.float32
        assert torch.addcmul(x, x.bfloat16(), x).dtype == torch.float32
        assert torch.cat([x, x.bfloat16()]).dtype == torch.float32


def test_the_default_dtype_and_the_cpus_autocast_stay_apart(chip: ModuleType) -> None:
    x = torch.rand(4, 4)

    with torch.autocast("cpu_sim"):
        assert (x @ x).dtype == torch.float32
        assert (x.to("cpu_sim") @ x.to("cpu_sim")).dtype == torch.get_autocast_dtype("cpu_sim")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x.to("cpu_sim") @ x.to("cpu_sim")).dtype == torch.float32
        assert functional.gelu(functional.linear(x.to("cpu_sim"), x.to("cpu_sim"))).dtype == torch.float32


def test_a_loss_that_overflows_in_low_precision_is_refused(chip: ModuleType) -> None:
    x = torch.rand(4, device="cpu_sim")

    with (
        torch.autocast("cpu_sim", dtype=torch.float16),
        pytest.raises(RuntimeError, match="use binary_cross_entropy_with_logits"),
    ):
        functional.binary_cross_entropy(x, x)


def test_a_fused_optimizer_takes_the_scaler(chip: ModuleType) -> None:
    weight = nn.Parameter(torch.ones(2, device="cpu_sim"))
    optimizer = torch.optim.SGD([weight], 0.5, fused=True)
    scaler = torch.amp.GradScaler("cpu_sim", init_scale=4.0)

    for factor, expected in ((1.0, 0.5), (float("inf"), 0.5)):
        optimizer.zero_grad()
        torch.autograd.backward(scaler.scale((weight * factor).sum()))
        scaler.step(optimizer)
        scaler.update()
        assert weight.tolist() == [expected, expected]
