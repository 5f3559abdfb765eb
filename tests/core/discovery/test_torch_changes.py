"""What changes of torch when a chip is loaded, and that nothing else does, by the syntax trees."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch
from tests.core.lightning.corrections.test_sole_table import writes_to_torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import northbridge
from northbridge import Backend, Device, get, no
from northbridge.autoload import seed_since_import
from northbridge.device import describe_device_type
from northbridge.discovery.current import seeded_when_loaded
from northbridge.discovery.torch_changes import TORCH_CHANGES, TorchChange, has_nested_tensors

CORE = Path(__file__).parents[3] / "core/northbridge"
PARTS_OF_FUNCTIONS = ("__defaults__", "__kwdefaults__", "__code__", "__globals__")
PARTS_OF_LIBRARIES = ("Library", "impl", "register_kernel", "register_autograd", "custom_op", "define")

OF_OTHERS = {
    "lightning.corrections.table:_apply": "Lightning's modules",
    "discovery.simulated:_place": "packages that looked for a vendor's before the stand-ins were there",
}
"""Modules that only a run knows by name."""


def changes_in(tree: ast.Module) -> set[str]:
    """Return the functions of ``tree`` that change torch: ``function``, or ``Class.function``."""
    expressions = (node for node in ast.walk(tree) if isinstance(node, ast.expr))
    lines = {*writes_to_torch(tree), *(node.lineno for node in expressions if _changes_torch(node))}
    found = dict.fromkeys(lines, "<module>")
    for name, first, last in _functions(tree):
        found |= {line: name for line in lines if first <= line <= last}
    return set(found.values())


def _changes_torch(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
        return node.attr in PARTS_OF_FUNCTIONS
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    called = ast.unparse(node.func)
    is_setting = called.startswith(("torch.use_", "torch.set_default", "torch.set_float", "torch.set_deterministic"))
    return is_setting or (node.func.attr in PARTS_OF_LIBRARIES and "librar" in called.lower())


def _functions(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    for node in tree.body:
        for each in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
                owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
                yield f"{owner}{each.name}", each.lineno, each.end_lineno or each.lineno


def test_every_change_of_torch_is_in_the_table() -> None:
    found = set()
    for path in CORE.rglob("*.py"):
        module = ".".join(path.relative_to(CORE).with_suffix("").parts)
        found |= {f"{module}:{each}" for each in changes_in(ast.parse(path.read_text()))}

    assert found - set(OF_OTHERS) == {row.place for row in TORCH_CHANGES}


@pytest.mark.parametrize("row", TORCH_CHANGES, ids=lambda row: row.changed)
def test_a_row_names_what_torch_has_why_and_how_it_ends(row: TorchChange) -> None:
    library, _, operator = row.changed.partition("::")
    if operator:
        known: list[str] = torch._C._dispatch_get_all_op_names()
        assert any(each.startswith(f"{library}::{operator.rstrip('*')}") for each in known)
    else:
        assert resolve_name(row.changed.partition(".*")[0]) is not None
    assert inspect.isfunction(inspect.unwrap(resolve_name(f"northbridge.{row.place}")))
    assert min(len(text.split()) for text in (row.reason, row.condition)) > 3
    assert row.undoing.startswith(("never: ", "by ", "after "))


CHANGES = (
    "import torch\ndef change():\n    torch.load = print",
    "def change():\n    from torch.nn import functional\n    functional.relu = print",
    "import torch\ndef change():\n    setattr(torch.Tensor, 'to', print)",
    "import torch\ndef change():\n    vars(torch)['load'] = print",
    "from unittest.mock import patch\ndef change():\n    patch('torch.load', print).start()",
    "from importlib import import_module\ndef change():\n    import_module('torch.cuda').count = print",
    "import sys\ndef change():\n    sys.modules['torch.cuda'].is_available = print",
    "def change(function):\n    function.__defaults__ = ()",
    "import torch\ndef change():\n    library = torch.library.Library('aten', 'IMPL')",
    "def change(library):\n    library.impl('add', print, 'CPU')",
    "import torch\ndef change():\n    torch.use_deterministic_algorithms(True)",
    "import torch\ndef change():\n    torch.set_default_device('cpu')",
)
OTHER_WRITES = (
    "import torch\nweights = torch.ones(1)\nweights.mark = 1",
    "import lightning\nlightning.pytorch.Trainer.fit = print",
    "def change(module):\n    module.training = True",
)


def test_a_planted_change_is_found() -> None:
    assert [code for code in CHANGES if changes_in(ast.parse(code)) != {"change"}] == []
    assert [code for code in OTHER_WRITES if changes_in(ast.parse(code))] == []


pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype")

PADDING = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0], [0, 1, 1, 1, 1]]).bool()


@pytest.fixture(scope="module", autouse=True)
def chip() -> northbridge.Backend:
    return northbridge.load("cpu_sim")


def make(norm: bool = False, **arguments: Any) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8) if norm else None, **arguments).eval()


def both(encoder: nn.TransformerEncoder, padding: Tensor, device: str) -> tuple[Tensor, Tensor]:
    """Return what `encoder` gives on the CPU and on `device`."""
    inputs = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(1))
    there = copy.deepcopy(encoder).to(device)
    found = there(inputs.to(device), src_key_padding_mask=padding.to(device))
    return encoder(inputs, src_key_padding_mask=padding), found.cpu()


def assert_encodes_padding(device: str, norm: bool) -> None:
    """Check that `device` gives the CPU's result, in the padding too; the posing chips are asked the same."""
    with torch.no_grad():
        expected, found = both(make(norm), PADDING, device)

    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(found[PADDING], expected[PADDING])


@pytest.mark.parametrize("norm", [False, True])
def test_padded_sequences_are_encoded_as_on_the_cpu(norm: bool) -> None:
    """On the CPU torch leaves zeros in the padding, before the norm."""
    assert_encodes_padding("cpu_sim", norm)


@pytest.mark.parametrize(
    "change",
    [
        lambda encoder: encoder.train(),
        lambda encoder: setattr(encoder, "use_nested_tensor", False),
        lambda encoder: encoder.requires_grad_(),
    ],
    ids=["training", "not wanted", "learning"],
)
def test_encoder_keeps_the_padding_where_torch_would(change: Callable[[nn.TransformerEncoder], object]) -> None:
    encoder = make().requires_grad_(False)
    change(encoder)

    expected, found = both(encoder, PADDING, "cpu_sim")

    assert torch.equal(found, expected)
    assert not torch.equal(found[PADDING], torch.zeros_like(found[PADDING]))


def test_encoder_does_not_take_a_gap_for_padding() -> None:
    """But it believes who forbids to check the mask."""
    gap = PADDING.clone()
    gap[1, 2] = True

    with torch.no_grad():
        expected, found = both(make(), gap, "cpu_sim")
        forbidden, believed = both(make(mask_check=False), PADDING, "cpu_sim")

    assert torch.equal(found, expected)
    torch.testing.assert_close(believed, forbidden, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # of torch.jit, which is old
def test_encoder_on_the_cpu_is_torchs() -> None:
    """The chip's presence changes nothing there; what torch scripts and pickles is torch's too."""
    encoder = make(norm=True)
    inputs = torch.randn(3, 5, 8)

    with torch.no_grad():
        expected = encoder(inputs, None, PADDING)
        scripted = torch.jit.script(encoder)(inputs, None, PADDING)
        kept = pickle.loads(pickle.dumps(encoder))(inputs, None, PADDING)

    assert torch.equal(expected[0, 3:], encoder.norm(torch.zeros(2, 8)))  # type: ignore[misc]  # it has a norm
    assert torch.equal(scripted, expected)
    assert torch.equal(kept, expected)


def test_compiled_encoder_is_compiled_whole() -> None:
    encoder = make().to("cpu_sim")
    inputs = torch.randn(3, 5, 8, device="cpu_sim")

    with torch.no_grad():
        compiled = torch.compile(encoder, backend="aot_eager", fullgraph=True)(inputs, None, PADDING.to("cpu_sim"))
        expected = encoder(inputs, None, PADDING.to("cpu_sim"))

    torch.testing.assert_close(compiled[1], expected[1])  # torch nests nothing that it compiles


def test_chip_with_nested_tensors_keeps_them() -> None:
    assert has_nested_tensors("cpu")
    assert not has_nested_tensors("cpu_sim")
    vendors: Any = torch.library.Library("aten", "IMPL", "NestedTensorPrivateUse1")  # type: ignore[no-untyped-call]
    try:
        vendors.impl("to_padded_tensor", lambda *_: None)
        assert has_nested_tensors("cpu_sim")
    finally:
        vendors._destroy()


def averages(device: str, *, by_decay: bool = False) -> dict[str, torch.Tensor]:
    """Return the averages of five steps of a batch norm on `device`."""
    numbers = torch.Generator().manual_seed(1)
    norm = nn.BatchNorm1d(2).to(device)
    how = get_ema_multi_avg_fn(0.25) if by_decay else None  # type: ignore[no-untyped-call]  # torch's
    averaged = AveragedModel(norm, multi_avg_fn=how, use_buffers=True)
    for _ in range(5):
        norm(torch.rand(4, 2, generator=numbers).to(device))
        averaged.update_parameters(norm)
    return {name: each.cpu() for name, each in averaged.module.state_dict().items()}


def assert_averages(device: str) -> None:
    """Check that `device` averages as the CPU, counters too; the simulated vendors' chips are asked the same."""
    for by_decay in (False, True):
        torch.testing.assert_close(
            averages(device, by_decay=by_decay), averages("cpu", by_decay=by_decay), rtol=1e-5, atol=1e-6
        )


def test_averages_with_counters() -> None:
    assert_averages("cpu_sim")
    assert averages("cpu_sim")["num_batches_tracked"] == 1


def test_renamed_spare_type_is_told_from_torchs_own() -> None:
    assert describe_device_type("cpu_sim") == "torch's spare device type, PrivateUse1, renamed to 'cpu_sim'"
    assert describe_device_type("xpu") == "a device type of its own, 'xpu', in this torch"


class _Ghost(Device):
    type: ClassVar[str] = "ghost"

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def seed(self, seed: int) -> None:
        self.seeds.append(seed)


@pytest.fixture
def backend() -> Iterator[Backend]:
    state = torch.get_rng_state()
    yield replace(get("cpu_sim"), device=_Ghost())
    torch.set_rng_state(state)


def seeds(backend: Backend) -> list[int]:
    with seeded_when_loaded(backend):
        pass
    assert isinstance(backend.device, _Ghost)
    return backend.device.seeds


def test_only_a_seed_that_was_set_reaches_the_chip(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("northbridge.autoload._seed_at_import", torch.initial_seed())
    assert (seed_since_import(), seeds(backend)) == (None, [])

    torch.manual_seed(7)
    assert seeds(backend) == [7]
    # Chips without generators, and those that torch knows already, keep theirs.
    denied = replace(backend.capabilities, random_numbers=no("it draws none"))
    assert seeds(replace(backend, device=_Ghost(), capabilities=denied)) == []
    monkeypatch.setattr(torch, "ghost", ModuleType("torch.ghost"), raising=False)
    assert seeds(replace(backend, device=_Ghost())) == []
