"""Lazy and eager mode: their markers, and ``hpu_backend``: where torch knows it, what it computes, and its options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.backends.hpu.gaudi import GAUDI
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.processes import Run
from torch import nn

import northbridge
from northbridge.lightning.strategies.compilation import reject_compiler

COUNT = "from northbridge_hpu.simulated import markers\n"


@pytest.mark.parametrize(
    ("release", "variable", "lazy"),
    [
        ("1.19", None, True),
        ("1.22", None, False),
        ("1.19", "0", False),
        ("1.22", "1", True),
        ("1.22", "2", True),
    ],
)
def test_the_variable_or_else_the_release_decides(run: Run, release: str, variable: str | None, lazy: bool) -> None:
    said = {} if variable is None else {"PT_HPU_LAZY_MODE": variable}
    assert run("print(htcore.is_lazy())", NORTHBRIDGE_HPU_SIM_RELEASE=release, **said).endswith(f"{lazy}\n")


def test_the_mode_is_decided_once(run: Run) -> None:
    program = """
    import os
    os.environ["PT_HPU_LAZY_MODE"] = "0"
    from habana_frameworks.torch.utils.internal import is_lazy
    print(is_lazy(), htcore.is_lazy())
    """
    assert run(program, PT_HPU_LAZY_MODE="1") == "True True\n"


def test_markers_count_in_lazy_mode(run: Run) -> None:
    program = COUNT + "htcore.mark_step(); htcore.mark_step('hpu', sync=True); torch.hpu.synchronize()\n"
    assert run(program + "print(markers.placed)", PT_HPU_LAZY_MODE="1") == "3\n"


def test_markers_do_nothing_in_eager_mode_and_the_log_says_so(run: Run) -> None:
    said = run(
        COUNT + "htcore.mark_step(); torch.hpu.synchronize(); print(markers.placed)",
        first="import logging; logging.basicConfig(format='%(message)s')\n" + GAUDI.imports,
        PT_HPU_LAZY_MODE="0",
        PT_HPU_AUTOLOAD="0",
    )
    assert said == "mark_step has no effect in eager mode\n0\n"


pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")  # of what torch.compile imports

LIST = """
import warnings; warnings.simplefilter('ignore')
from torch._dynamo.backends import registry; print('hpu_backend' in registry._COMPILER_FNS)
"""


@pytest.fixture(autouse=True)
def forgotten(hpu: ModuleType) -> Iterator[None]:
    """Nothing that another test compiled is used."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.shows("torch.compile knows hpu_backend in eager mode alone")
def test_lazy_mode_lacks_it_and_denies_the_claim(run: Run) -> None:
    program = """
    import northbridge
    claim = northbridge.load("hpu").present_capabilities().compile
    print(claim.answer, claim.reason)
    """
    said = run(program, first=GAUDI.imports + LIST, PT_HPU_LAZY_MODE="1")
    assert said == "False\nno lazy mode makes graphs by itself\n"


@pytest.mark.shows("torch.compile knows hpu_backend in eager mode alone")
def test_eager_mode_waits_for_torchs_own_import_of_the_compiler() -> None:
    program = "import sys, habana_frameworks.torch, torch; print('torch._dynamo' in sys.modules)\n" + LIST
    load = "import northbridge; northbridge.load('hpu')\n"
    environ = {**os.environ, "PT_HPU_LAZY_MODE": "0"}

    said = subprocess.run(
        [sys.executable, "-c", load + program], env=environ, capture_output=True, text=True, check=True
    )

    assert said.stdout == "False\nTrue\n"


NO_COMPILER = (
    "torch.compile(backend='hpu_backend'): lazy mode makes graphs by itself, and PT_HPU_LAZY_MODE=0 chooses eager mode."
    " Fix: leave torch.compile out\n"
)


@pytest.mark.parametrize(
    ("lazy", "release", "wanted"), [("1", "1.22", NO_COMPILER), ("0", "1.19", "compiles torch.Size([1])\n")]
)
def test_a_script_compiles_before_it_loads_the_chip(run: Run, lazy: str, release: str, wanted: str) -> None:
    program = """
    import torch, northbridge, warnings
    warnings.simplefilter("ignore")
    try:
        torch.compile(torch.nn.Linear(1, 1), backend="hpu_backend")
        northbridge.load("hpu")
        model = torch.nn.Linear(1, 1).to("hpu")
        print("compiles", torch.compile(model, backend="hpu_backend")(torch.ones(1, device="hpu")).shape)
    except northbridge.UnsupportedError as error:
        print(error)
    """

    assert run(program, first="", PT_HPU_LAZY_MODE=lazy, NORTHBRIDGE_HPU_SIM_RELEASE=release) == wanted


@pytest.mark.shows("hpu_backend patches its options for each graph")
def test_loss_and_gradients_are_those_without_it() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 1)).to("hpu")
    compiled: Any = torch.compile(net, backend="hpu_backend", options={"inference": False})
    results = []
    for module in (net, compiled):
        net.zero_grad()
        loss = module(torch.ones(3, 4, device="hpu")).square().sum()
        loss.backward()
        results.append([loss.detach(), *(each.grad for each in net.parameters())])

    assert all(torch.equal(plain, other) for plain, other in zip(*results, strict=True))


def test_four_batch_sizes_are_two_graphs() -> None:
    from torch._dynamo.utils import counters

    counters.clear()
    compiled: Any = torch.compile(nn.Linear(4, 1).to("hpu"), backend="hpu_backend")

    for rows in (2, 3, 5, 7):
        compiled(torch.ones(rows, 4, device="hpu"))

    assert counters["stats"]["unique_graphs"] == 2  # of the first size, and of any other


def test_options_hold_for_one_graph() -> None:
    from habana_frameworks.torch.dynamo.compile_backend import config

    module: Any = config
    compiled: Any = torch.compile(
        nn.Linear(4, 1).to("hpu"), backend="hpu_backend", options={"keep_input_mutations": False}
    )
    compiled(torch.ones(1, 4, device="hpu"))

    assert module.keep_input_mutations is True


@pytest.mark.shows("options of hpu_backend", "habana_frameworks.torch.dynamo.compile_backend.config.get_config_copy")
def test_the_options_are_those_of_the_contract(sim: SimChip) -> None:
    said = sim.lines["options of hpu_backend"].meaning
    listed = re.findall(r"(\w+)=(True|False|'\w+')", said)

    found = northbridge.get("hpu").acceleration.compile_options()

    assert {name: repr(value) for name, value in found.items()} == dict(listed)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("inferense", "did you mean 'inference'?"),
        ("zzz", "it has decomposition_mode, discard_frozen_params, "),
    ],
)
def test_an_unknown_option_is_named_before_the_first_step(option: str, said: str) -> None:
    with pytest.raises(northbridge.UnsupportedError) as refused:
        reject_compiler(northbridge.get("hpu"), {"backend": "hpu_backend", "options": {option: True}})

    assert str(refused.value).startswith(f"'hpu_backend' of 'hpu' has no option {option!r}; {said}")
    assert str(refused.value).endswith("Fix: correct options=")


@pytest.mark.parametrize("arguments", [{}, {"options": {"inference": False}}], ids=str)
def test_known_options_are_accepted(arguments: dict[str, Any]) -> None:
    reject_compiler(northbridge.get("hpu"), {"backend": "hpu_backend", **arguments})


def test_a_release_without_a_list_leaves_options_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "habana_frameworks.torch.dynamo.compile_backend.config", None)

    assert northbridge.get("hpu").acceleration.compile_options() == {}
    assert "options of hpu_backend unchecked" in [each.outcome for each in northbridge.record()]
