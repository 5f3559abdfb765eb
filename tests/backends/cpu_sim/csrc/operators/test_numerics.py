"""Numbers of the chip: they are the CPU's, to the bit, wherever the same kernels run."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell])
@pytest.mark.parametrize("bias", [True, False])
def test_recurrent_cells_are_the_cpus(chip: ModuleType, cell: type[nn.LSTMCell] | type[nn.GRUCell], bias: bool) -> None:
    torch.manual_seed(0)
    module, inputs = cell(5, 7, bias=bias), torch.randn(3, 5)
    expected = module(inputs)
    found = module.to("cpu_sim")(inputs.to("cpu_sim"))

    for x, y in zip(*(t if isinstance(t, tuple) else (t,) for t in (expected, found)), strict=True):
        assert torch.equal(y.cpu(), x)


@pytest.mark.parametrize("layer", [nn.LSTM(2, 3), nn.GRU(2, 3), nn.RNNCell(2, 3)], ids=["lstm", "gru", "cell"])
def test_recurrent_layer_on_another_device_is_refused(chip: ModuleType, layer: nn.Module) -> None:
    there = copy.deepcopy(layer).to("cpu_sim:1")
    x = torch.ones(1, 2, device="cpu_sim:0")

    with pytest.raises(RuntimeError, match="found at least two devices, cpu_sim:0 and cpu_sim:1"):
        there(x)


def test_a_recurrent_layer_has_a_second_derivative(chip: ModuleType) -> None:
    torch.manual_seed(0)
    module = nn.GRU(5, 7)
    inputs = torch.randn(4, 3, 5)

    def run(device: str) -> list[Tensor]:
        x = inputs.to(device).requires_grad_()
        module.to(device)
        (first,) = torch.autograd.grad(module(x)[0].square().sum(), x, create_graph=True)
        return [y.cpu() for y in torch.autograd.grad(first.square().sum(), list(module.parameters()))]

    torch.testing.assert_close(run("cpu_sim"), run("cpu"))


def test_recurrent_weight_changed_before_backward_is_refused(chip: ModuleType) -> None:
    module = nn.LSTM(5, 7).to("cpu_sim")
    output, _ = module(torch.randn(4, 3, 5, device="cpu_sim"))
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(1)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.backward(output.sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided"])
def test_dropout_scales_what_it_keeps(chip: ModuleType, dtype: torch.dtype, layout: str) -> None:
    whole = torch.randn(40, 66, dtype=dtype)
    given = {"contiguous": whole, "transposed": whole.t(), "strided": whole[:, ::2]}[layout]
    chips = {"contiguous": whole.to("cpu_sim"), "transposed": whole.to("cpu_sim").t()}
    inputs = chips.get(layout, whole.to("cpu_sim")[:, ::2]).requires_grad_()

    output, mask = torch.native_dropout(inputs, 0.3, train=True)
    (of_inputs,) = torch.autograd.grad(output.sum(), inputs)

    kept = mask.cpu()
    assert 0.6 < kept.double().mean() < 0.8
    assert torch.equal(output.cpu(), given.mul(kept).mul_(1 / 0.7))
    assert output.stride() == given.mul(kept).stride()
    assert torch.equal(of_inputs.cpu(), torch.ones_like(given).mul(kept).mul_(1 / 0.7))


def test_recurrent_dropout_uses_the_chips_generator(chip: ModuleType) -> None:
    module = nn.GRU(5, 7, num_layers=2, dropout=0.5).to("cpu_sim")
    inputs = torch.randn(4, 3, 5, device="cpu_sim")
    before = torch.get_rng_state()

    first, second = module(inputs)[0], module(inputs)[0]

    assert not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


zeros_without_memory: Callable[..., Tensor] = torch.ops.aten._efficientzerotensor


def norm_without_update(device: str) -> Tensor:
    x, zeros, ones = (tensor.to(device) for tensor in (torch.arange(6.0).view(2, 3), torch.zeros(3), torch.ones(3)))
    normalized: Tensor = torch.ops.aten._batch_norm_no_update(x, None, None, zeros, ones, 0.1, 1e-5)[0]
    return normalized


CORNERS: dict[str, Callable[[str], Tensor]] = {
    "kaiser": lambda device: torch.kaiser_window(9, device=device),
    "kaiser, symmetric": lambda device: torch.kaiser_window(9, False, device=device),
    "kaiser, beta": lambda device: torch.kaiser_window(9, True, 5.0, device=device),
    "norm without update": norm_without_update,
    "oneDNN": lambda device: torch.ops.aten.mkldnn_convolution(
        torch.ones(1, 2, 4, 4, device=device), torch.ones(2, 2, 2, 2, device=device), None, [0, 0], [1, 1], [1, 1], 1
    ),
    "zeros, out=": lambda device: torch.ops.aten._efficientzerotensor.out([3], out=torch.ones(3, device=device)),
    "zeros, dot": lambda device: torch.dot(zeros_without_memory([3], device=device), torch.ones(3, device=device)),
    "lazy clone": lambda device: torch.ops.aten._lazy_clone(torch.ones(3, device=device)).add_(1),
    "sparse copy": lambda device: (
        torch.zeros(3, 3, device=device).to_sparse().copy_(torch.eye(3).to_sparse()).to_dense()
    ),
    "compressed rows": lambda device: torch.eye(3).to_sparse_csr().to(device).crow_indices(),
    "compressed values": lambda device: torch.eye(3).to_sparse_csc().to(device).values(),
}
"""Operators of torch that build on kernels of one device, or on memory that it allocates."""


@pytest.mark.filterwarnings("ignore:Sparse C.. tensor support is in beta", "ignore:Sparse invariant checks")
@pytest.mark.parametrize("name", CORNERS)
def test_operators_of_one_device_are_the_cpus(chip: ModuleType, name: str) -> None:
    found = CORNERS[name]("cpu_sim:1")

    assert found.device == torch.device("cpu_sim:1")
    assert torch.equal(found.cpu(), CORNERS[name]("cpu"))


def freed() -> Tensor:
    tensor = torch.ones(3, device="cpu_sim")
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: torch.ops.aten._thnn_fused_lstm_cell(*torch.ones(3, 2, 4, device="cpu_sim")),
            r"gates of \[2, 4\] and \[2, 4\] do not fit a state of \[2, 4\].*Fix: give gates of \[batch, 4 \* size\]",
        ),
        (
            lambda: torch.ops.aten._thnn_fused_gru_cell(*torch.ones(3, 2, 4, device="cpu_sim")),
            r"gates of .* do not fit .*Fix: give gates of \[batch, 3 \* size\]",
        ),
        (lambda: freed().cpu(), r"a tensor of \[3\] has no memory: .*Fix: resize the storage before"),
        (lambda: freed() + 1, r"a tensor of \[3\] has no memory: .*Fix: resize the storage before"),
        (
            lambda: zeros_without_memory([3], device="cpu_sim").copy_(torch.ones(3, device="cpu_sim")),
            r"a tensor of zeros without memory was written. Fix: write to its clone\(\)",
        ),
        (
            lambda: torch.ones(3).bernoulli_(generator=torch.Generator("cpu_sim:1")),
            r"found at least two devices, cpu_sim:1 and cpu! \(when checking argument self",
        ),
        (
            lambda: torch.native_dropout(torch.ones(3, device="cpu_sim").bool(), 0.5, True),
            r"dropout scales by a fraction, which a tensor of Bool cannot hold. Fix: make it floating-point first",
        ),
    ],
    ids=["LSTM", "GRU", "freed, read", "freed, computed", "zeros written", "generator", "dropout"],
)
def test_what_would_touch_foreign_memory_is_refused(chip: ModuleType, call: Callable[[], object], said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        call()


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("compute", "said"),
    [
        (
            lambda: torch.sparse.sampled_addmm(
                torch.eye(3).to_sparse_csr().to("cpu_sim"), *torch.ones(2, 3, 3, device="cpu_sim").unbind()
            ),
            r"aten::sparse_sampled_addmm was called on cpu_sim with a sparse CSR.*to_dense\(\).*the CPU first",
        ),
        (
            lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device="cpu_sim") + 1,
            r"aten::add.Tensor was called on cpu_sim with a nested tensor.*to_padded_tensor\(\)",
        ),
        (
            lambda: torch.ops.aten._nested_tensor_from_mask(
                torch.ones(1, 2, 3, device="cpu_sim"), torch.tensor([[True, False]], device="cpu_sim")
            ),
            r"aten::_nested_tensor_from_mask gives a nested tensor of Float, which cpu_sim cannot hold",
        ),
        (lambda: torch.ones(2, 2, device="cpu_sim").to_mkldnn(), "gives a Mkldnn tensor of Float"),
        (lambda: torch.ones(2, 2, device="cpu_sim").to_sparse_csr(), "which cpu_sim cannot hold"),
    ],
)
def test_a_layout_that_the_chip_lacks_is_refused(chip: ModuleType, compute: Callable[[], Tensor], said: str) -> None:
    with pytest.raises(NotImplementedError, match=said):
        compute()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_crosses_over_and_back(chip: ModuleType) -> None:
    given = torch.nested.nested_tensor([torch.ones(2), torch.arange(3.0)])

    there = given.to("cpu_sim:1")

    assert there.device == torch.device("cpu_sim:1")
    assert "tensor([0., 1., 2.]" in str(there)
    assert all(torch.equal(*parts) for parts in zip(there.cpu().unbind(), given.unbind(), strict=True))


def test_packed_sequences_of_unequal_length_work(chip: ModuleType) -> None:
    torch.manual_seed(0)
    module = nn.GRU(5, 7, batch_first=True)
    inputs = torch.randn(3, 4, 5)

    def run(device: str) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(inputs.to(device), torch.tensor([4, 2, 1]), batch_first=True)
        output, _ = module.to(device)(packed)
        unpacked, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        return unpacked.detach().cpu()

    assert torch.equal(run("cpu_sim"), run("cpu"))


@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled")
def test_sparse_gradients_train_an_embedding(chip: ModuleType) -> None:
    def run(device: str) -> Tensor:
        torch.manual_seed(0)
        embedding = nn.Embedding(10, 4, sparse=True).to(device)
        optimizer: torch.optim.Optimizer = torch.optim.SparseAdam(embedding.parameters(), lr=0.1)
        torch.autograd.backward(embedding(torch.tensor([1, 5, 5, 9], device=device)).square().sum())
        assert embedding.weight.grad is not None
        assert embedding.weight.grad.is_sparse
        optimizer.step()
        return embedding.weight.detach().cpu()

    assert torch.equal(run("cpu_sim:1"), run("cpu"))


def test_sparse_tensors_cross_over_and_keep_their_device(chip: ModuleType) -> None:
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])

    sparse = dense.to("cpu_sim:2").to_sparse()
    double = (sparse + sparse).coalesce()

    assert double.device == double.values().device == torch.device("cpu_sim:2")
    assert torch.equal(double.to_dense().cpu(), 2 * dense)
    assert torch.equal((sparse @ dense.to("cpu_sim:2")).cpu(), dense @ dense)
    assert torch.equal(sparse.cpu().to_dense(), dense)
    assert torch.equal(dense.to_sparse().to("cpu_sim").to_dense().cpu(), dense)


COMPLEX = torch.tensor([1 + 2j, 3 - 4j])


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x.conj(),
        lambda x: x.conj().imag,
        lambda x: torch.view_as_real(x.conj().resolve_conj()),
        lambda x: x.reshape(2, 1).mH @ x.reshape(2, 1),
        lambda x: x.clone().copy_(x.conj()).add_(x.conj()),
        lambda x: torch.ops.aten._neg_view(x.real),
    ],
)
def test_conjugate_and_negative_views_are_the_cpus(chip: ModuleType, compute: Callable[[Tensor], Tensor]) -> None:
    assert torch.equal(compute(COMPLEX.to("cpu_sim")).cpu(), compute(COMPLEX))


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.view(6).add_(1),
        lambda x: x.unfold(1, 2, 1).mul_(2),
        lambda x: x.diagonal().copy_(torch.tensor([8.0, 9.0])),
        lambda x: torch.ops.aten._foreach_add_([x, x[0]], 1.0),
        lambda x: x.view(torch.int32).zero_(),
        lambda x: x.set_(torch.ones(2, 3, device=x.device)),
        lambda x: x.transpose_(0, 1).add_(x.new_ones(2)),
        lambda x: x.resize_(1, 2),
        lambda x: torch.cumsum(x, 1, out=x),
    ],
)
def test_a_write_through_a_view_reaches_the_memory(chip: ModuleType, write: Callable[[Tensor], object]) -> None:
    on_cpu = torch.arange(6.0).view(2, 3)
    on_chip = on_cpu.to("cpu_sim:1")

    write(on_cpu)
    write(on_chip)

    assert on_chip.device == torch.device("cpu_sim:1")
    assert on_chip.stride() == on_cpu.stride()
    assert torch.equal(on_chip.cpu(), on_cpu)


def test_an_in_place_operation_returns_its_own_tensor(chip: ModuleType) -> None:
    x = torch.zeros(3, device="cpu_sim")
    out = torch.empty(0, device="cpu_sim")

    assert x.add_(1) is x
    assert torch.add(x, 1, out=out) is out
    assert torch.sort(x, out=(out, y := torch.empty(0, dtype=torch.long, device="cpu_sim")))[1] is y
    assert x.data_ptr() == x.relu_().data_ptr()


def test_operation_that_returns_its_argument_gives_a_view(chip: ModuleType) -> None:
    x = torch.zeros(2, 3, device="cpu_sim")

    view = x.view(torch.int32).select(0, 1)
    view.fill_(1)

    assert x[1].view(torch.int32).tolist() == [1, 1, 1]
    assert x.contiguous() is x
    assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_results_that_share_memory_share_it_on_the_chip(chip: ModuleType) -> None:
    x = torch.arange(6.0, device="cpu_sim")

    first, second = torch.ops.aten.unsafe_split(x, 3)
    q, r = torch.linalg.qr(torch.eye(3, device="cpu_sim"))

    assert first.tolist() + second.tolist() == x.tolist()
    assert torch.equal((q @ r).cpu(), torch.eye(3))


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: functional.scaled_dot_product_attention(x, x, x),
        lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda x: functional.scaled_dot_product_attention(
            x, x, x, attn_mask=torch.ones(8, 8, dtype=torch.bool, device=x.device).tril()
        ),
    ],
    ids=["full", "causal", "masked"],
)
def test_attention_is_the_cpus_to_the_bit_both_ways(chip: ModuleType, compute: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    start = torch.randn(2, 4, 8, 16)

    def run(device: str) -> tuple[Tensor, Tensor]:
        x = start.to(device).requires_grad_()
        y = compute(x)
        torch.autograd.backward(y.square().sum())
        assert x.grad is not None
        return y.detach().cpu(), x.grad.cpu()

    for x, y in zip(run("cpu_sim"), run("cpu"), strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, y: x @ y,
        lambda x, y: functional.linear(x, y, y[0]),
        lambda x, y: torch.bmm(x.expand(2, -1, -1), y.expand(2, -1, -1)),
        lambda x, y: torch.baddbmm(y.expand(1, -1, -1), x[None], y[None]),
        lambda x, y: functional.conv2d(x.view(1, 16, 32, 32), y.view(256, 16, 2, 2)[:8], y[0, :8]),
    ],
    ids=["mm", "addmm", "bmm", "baddbmm", "convolution"],
)
def test_float16_products_are_rounded_once(chip: ModuleType, compute: Callable[[Tensor, Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(128, 128).half() for _ in range(2)]

    def run(device: str, dtype: torch.dtype) -> list[Tensor]:
        x, y = (tensor.to(device, dtype).requires_grad_() for tensor in inputs)
        product = compute(x, y)
        assert product.dtype == dtype
        return [product.detach().cpu(), *(tensor.cpu() for tensor in torch.autograd.grad(product.sum(), (x, y)))]

    product, *gradients = run("cpu_sim", torch.float16)
    exact, *exact_gradients = (tensor.half() for tensor in run("cpu", torch.float32))
    assert torch.equal(product, exact)
    for found, expected in zip(gradients, exact_gradients, strict=True):  # a sum of two products is rounded twice
        torch.testing.assert_close(found, expected, rtol=2**-10, atol=2**-9)


def test_large_mixed_dtype_product_is_refused(chip: ModuleType) -> None:
    x = torch.ones(128, 128, device="cpu_sim")

    with pytest.raises(RuntimeError, match=r"same dtype.*Half"):
        torch.matmul(x.half(), x)


PROGRAM = """
import json, warnings
warnings.simplefilter("ignore")
from tests.ops.layouts import compare
torch.set_num_threads(1)
print(json.dumps(compare("cpu_sim:1")))
"""
"""A program that compares every layer, laid out in every way, and its second derivative with the CPU's."""


def test_layouts_and_second_derivatives_are_the_cpus(in_fork: Callable[..., str]) -> None:
    """With a thread for the device, since fewer things can differ where the caller's thread does all."""
    said = in_fork(PROGRAM, NORTHBRIDGE_CPU_SIM_AUTOGRAD_THREADS="1")

    answer = json.loads(said.splitlines()[-1])
    assert answer["differences"] == []
    compared = ("output", "gradient", "second derivative", "no_grad", "inference_mode")
    assert min(answer["counts"][what] for what in compared) > 1000
