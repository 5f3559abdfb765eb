"""Nothing of Lightning's is replaced outside of the table, by the syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.core.lightning.corrections.replaced import writes_to_lightning

ROOT = Path(__file__).parents[4]
TABLE = ROOT / "core/northbridge/lightning/corrections/table.py"
USERS_PROCESSES = ROOT / "conformance/northbridge_conformance/runs"
"""Files that stand for users' scripts may do what users do."""

STAND_INS_RECORD = ROOT / "backends/cpu_sim/northbridge_cpu_sim/simulation/record.py"
"""It gives the modules of a stand-in a class, by names that only a run knows."""

FOUND_TOO_EARLY = ROOT / "core/northbridge/discovery/simulated.py"
"""It tells packages that looked for a vendor's before the stand-ins were there; a simulation names them."""


def modules() -> Iterator[Path]:
    for room in ("core/northbridge", "backends"):
        yield from (path for path in (ROOT / room).rglob("*.py") if USERS_PROCESSES not in path.parents)


def test_the_table_alone_replaces() -> None:
    found = {path for path in modules() if writes_to_lightning(ast.parse(path.read_text()))}

    assert found == {TABLE, STAND_INS_RECORD, FOUND_TOO_EARLY}


@pytest.mark.parametrize(
    "planted",
    [
        "import lightning.pytorch as pl\npl.Trainer.fit = None",
        "from lightning.fabric import strategies\nstrategies.DDPStrategy.backward = print",
        "from lightning_fabric.strategies import DDPStrategy as Stock\nsetattr(Stock, 'backward', print)",
        "import pytorch_lightning\nsetattr(pytorch_lightning.Trainer, 'fit', print)",
        "import pytorch_lightning\ndel pytorch_lightning.Trainer.fit",
        "from unittest.mock import patch\npatch('lightning.pytorch.Trainer.fit', print).start()",
        "from unittest import mock\nfrom lightning import Trainer\nmock.patch.object(Trainer, 'fit', print).start()",
        "def correct(namespace):\n    namespace.module('cli')._get_num_processes = print",
        "def correct(namespace):\n    module = namespace.fabric_module('cli')\n    module._get_num_processes = print",
        "def correct(namespace):\n    owner = getattr(namespace.connector, 'x')\n    vars(owner)['y'] = print",
        "def correct(namespace):\n    _hook(namespace.accelerator_registry)\ndef _hook(it):\n    it.register = print",
        "def correct(namespace):\n    for each in (namespace.strategy_registry,):\n        each.register = print",
        "def correct(namespace):\n    _of(namespace).x = 1\ndef _of(namespace):\n    return namespace.module('cli')",
        "def correct(module, namespace):\n    for each in getattr(namespace.module('x'), 'p'):\n        each.type = 1",
        "def correct(trainer):\n    type(trainer).fit = print",
        "def correct(trainer):\n    trainer.__class__.fit = print",
        "class Mixin:\n    def setup(self):\n        self.stock_class.setup = print",
        "import sys\nsys.modules['lightning.pytorch'].Trainer = None",
        "from importlib import import_module\nimport_module(name).Trainer.fit = print",
    ],
)
def test_a_planted_write_is_found(planted: str) -> None:
    assert writes_to_lightning(ast.parse(planted))


@pytest.mark.parametrize(
    "harmless",
    [
        "def settle(connector):\n    connector._layer_sync = None",
        "from lightning.pytorch import Trainer\ntrainer = Trainer()\ntrainer.mark = 1",
        "def take(strategy, ours):\n    strategy.__class__ = ours",
        "import torch\ntorch.load = print",
        "from importlib import import_module\nimport_module('torch').load = print",
        "def ask(namespace):\n    ranks = namespace.module('cli').count()\n    ranks.seen = True",
    ],
)
def test_a_write_to_something_else_is_allowed(harmless: str) -> None:
    assert not writes_to_lightning(ast.parse(harmless))
