"""Wrappers of torch around a model on the chip: checkpoints, transforms, hooks, and modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

# Untyped in torch.
recomputed: Callable[..., Tensor] = checkpoint
in_parts: Callable[..., Tensor] = checkpoint_sequential
jvp: Any = torch.func.jvp
determinism: Any = torch.utils.deterministic


def dropped(x: Tensor) -> Tensor:
    return nn.functional.dropout(x * 2, 0.5).sin()


@pytest.mark.parametrize("reentrant", [False, True], ids=["", "reentrant"])
def test_recomputed_checkpoint_draws_the_same_numbers(chip: ModuleType, reentrant: bool) -> None:
    grads = []
    for wrapped in (False, True):
        chip.manual_seed_all(3)
        x = torch.arange(1.0, 65.0, device="cpu_sim:1", requires_grad=True)
        y = recomputed(dropped, x, use_reentrant=reentrant) if wrapped else dropped(x)
        after = torch.rand(4, device="cpu_sim:1")  # between forward and backward
        torch.autograd.backward(y.sum())
        assert x.grad is not None
        grads += [torch.cat([x.grad, after])]
        assert not torch.equal(torch.rand(4, device="cpu_sim:1"), after)

    assert torch.equal(*grads)


def test_checkpoint_holds_less_memory_before_backward(chip: ModuleType) -> None:
    layers = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(8)]).to("cpu_sim:1")
    x = torch.ones(512, 64, device="cpu_sim:1", requires_grad=True)
    held = []
    runs: list[Callable[[Tensor], Tensor]] = [
        lambda value: layers(value),
        lambda value: in_parts(layers, 4, value, use_reentrant=False),
    ]
    for run in runs:
        before = chip.memory_allocated(1)
        y = run(x)
        held.append(chip.memory_allocated(1) - before)
        torch.autograd.backward(y.sum())
        del y

    assert held[1] < held[0] / 2


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # of torch.func.jvp's own; of one kind or another by release
def test_functional_transforms_give_the_cpus_numbers(chip: ModuleType) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = torch.randn(5, 3)

    def everything(device: str) -> list[Tensor]:
        parameters = {name: value.detach().to(device) for name, value in module.named_parameters()}
        on = x.to(device)

        def loss(values: dict[str, Tensor], row: Tensor) -> Tensor:
            result: Tensor = torch.func.functional_call(module, values, (row,)).square().sum()
            return result

        one_by_one = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, on)
        jacobian = torch.func.vmap(
            torch.func.jacrev(lambda row: torch.func.functional_call(module, parameters, (row,)))
        )
        hessian = torch.func.hessian(lambda row: loss(parameters, row))
        _, forward = jvp(lambda row: loss(parameters, row), (on[0],), (torch.ones_like(on[0]),))
        return [*one_by_one.values(), jacobian(on), hessian(on[0]), forward]

    here, there = everything("cpu_sim:1"), everything("cpu")

    assert {value.device for value in here} == {torch.device("cpu_sim:1")}
    for got, expected in zip(here, there, strict=True):
        torch.testing.assert_close(got.cpu(), expected)


def test_vmap_draws_one_number_for_all_or_one_for_each(chip: ModuleType) -> None:
    x = torch.zeros(16, device="cpu_sim")

    def drawn(randomness: str) -> Tensor:
        result: Tensor = torch.func.vmap(lambda row: row + torch.rand_like(row), randomness=randomness)(x)
        return result

    assert len(set(drawn("same").tolist())) == 1
    assert len(set(drawn("different").tolist())) == 16


def test_hooks_run_on_the_chip_and_see_its_tensors(chip: ModuleType) -> None:
    seen: list[tuple[str, str]] = []
    module: Any = nn.Linear(2, 2).to("cpu_sim:1")
    module.register_forward_pre_hook(lambda _, inputs: seen.append(("before", str(inputs[0].device))))
    module.register_forward_hook(lambda _, __, output: seen.append(("after", str(output.device))))
    module.register_full_backward_hook(lambda _, grads, __: seen.append(("backward", str(grads[0].device))))
    module.weight.register_post_accumulate_grad_hook(lambda weight: seen.append(("grad", str(weight.grad.device))))
    x: Any = torch.ones(1, 2, device="cpu_sim:1", requires_grad=True)
    x.register_hook(lambda grad: grad * 2)

    torch.autograd.backward(module(x).sum())

    assert dict(seen) == dict.fromkeys(["before", "after", "backward", "grad"], "cpu_sim:1")
    torch.testing.assert_close(x.grad, 2 * module.weight.sum(0, keepdim=True))


@pytest.mark.parametrize("pin_memory", [False, True])
def test_what_is_saved_for_backward_can_wait_on_the_cpu(chip: ModuleType, pin_memory: bool) -> None:
    x = torch.ones(1 << 16, device="cpu_sim:1", requires_grad=True)
    before = chip.memory_allocated(1)

    with torch.autograd.graph.save_on_cpu(pin_memory=pin_memory):
        y = x.exp().sin().cos()
    assert chip.memory_allocated(1) - before == y.nbytes
    torch.autograd.backward(y.sum())

    assert x.grad is not None
    assert x.grad.device == x.device
    expected = torch.ones(1, requires_grad=True)
    torch.autograd.backward(expected.exp().sin().cos().sum())
    torch.testing.assert_close(x.grad[:1].cpu(), expected.grad)


def test_an_inference_tensor_is_refused_by_autograd_as_on_cuda(chip: ModuleType) -> None:
    with torch.inference_mode():
        x = torch.ones(2, device="cpu_sim")
    weight = torch.ones(2, device="cpu_sim", requires_grad=True)

    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        torch.mul(weight, x)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        x.add_(1)
    assert not x.clone().is_inference()


@contextmanager
def deterministic(fill: bool) -> Iterator[None]:
    before = determinism.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    determinism.fill_uninitialized_memory = fill
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        determinism.fill_uninitialized_memory = before


@pytest.mark.parametrize(
    "make",
    [
        lambda dtype: torch.empty(5, device="cpu_sim", dtype=dtype),
        lambda dtype: torch.empty_strided((5,), (2,), device="cpu_sim", dtype=dtype),
        lambda dtype: torch.empty_like(torch.ones(5, device="cpu_sim", dtype=dtype)),
        lambda dtype: torch.zeros(2, device="cpu_sim", dtype=dtype).resize_(7)[2:],
    ],
    ids=["empty", "empty_strided", "empty_like", "resize_"],
)
def test_in_deterministic_mode_new_memory_is_filled(chip: ModuleType, make: Callable[[torch.dtype], Tensor]) -> None:
    with deterministic(fill=True):
        assert make(torch.float32).isnan().all()
        assert set(make(torch.int16).tolist()) == {torch.iinfo(torch.int16).max}


def test_in_deterministic_mode_a_model_trains_as_on_the_cpu(chip: ModuleType) -> None:
    with deterministic(fill=False):
        grads = []
        for device in ("cpu", "cpu_sim"):
            weight = torch.arange(6.0, device=device).view(3, 2).requires_grad_()
            picked = weight[torch.tensor([0, 2, 0], device=device)]
            torch.autograd.backward(picked.index_add(0, torch.tensor([1], device=device), picked[:1]).exp().sum())
            assert weight.grad is not None
            grads.append(weight.grad.cpu())
        assert torch.equal(*grads)


def test_anomaly_mode_names_the_forward_line(chip: ModuleType) -> None:
    x = torch.zeros(2, device="cpu_sim", requires_grad=True)

    def rooted() -> None:
        y = x.sqrt()
        torch.autograd.backward((y * 0).sum())

    with (
        pytest.warns(UserWarning, match="Anomaly Detection has been enabled"),
        torch.autograd.detect_anomaly(check_nan=True),
        pytest.warns(UserWarning, match=r"Error detected in SqrtBackward0(?s:.*)y = x\.sqrt\(\)"),
        pytest.raises(RuntimeError, match="returned nan values"),
    ):
        rooted()


def test_autocast_nests_and_can_be_switched_off_inside(chip: ModuleType) -> None:
    x = torch.ones(2, 2, device="cpu_sim")

    with torch.autocast("cpu_sim", dtype=torch.bfloat16):
        outer = x @ x
        with torch.autocast("cpu_sim", enabled=False):
            off = x @ x
        with torch.autocast("cpu_sim", dtype=torch.float16):
            inner = x @ x
        with torch.autocast("cpu", dtype=torch.bfloat16):
            both = (x @ x, x.cpu() @ x.cpu())
    after = x @ x

    assert [value.dtype for value in (outer, off, inner, *both, after)] == [
        torch.bfloat16,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.bfloat16,
        torch.float32,
    ]
