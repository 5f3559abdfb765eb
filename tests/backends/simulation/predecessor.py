"""The package that served a vendor's name in Lightning before: installed beside ours, and its names in ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import ModuleType
from typing import ClassVar

import pytest
from tests.backends.simulation.chip import SimChip
from tests.core.conftest import Install

import northbridge

BESIDE = """
import json, warnings
{order}
def build(**arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        strategy = Trainer(logger=False, enable_checkpointing=False, **arguments).strategy
    said = [str(each.message) for each in caught if "{predecessor}" in str(each.message)]
    return [type(strategy).__module__, type(strategy.accelerator).__module__, said]

print("\\n" + json.dumps([build(accelerator="{name}", devices=1), build(devices=2, strategy="{several}"),
                        build({single})]))
"""
FIRST_THEIRS = """
import {predecessor}
{predecessor}.register()
import northbridge.lightning
from lightning.pytorch import Trainer
"""
FIRST_OURS = """
from lightning.pytorch import Trainer
import {predecessor}
{predecessor}.register()
"""


class Predecessor:
    """Tests of any replaced package; a vendor of its name in ``tests/vendors`` stands for it."""

    predecessor: ClassVar[str]
    several: ClassVar[str]
    """The name of its strategy for several devices."""

    single: ClassVar[str]
    """The arguments by which a Trainer gets its strategy for one device."""

    homes: ClassVar[Mapping[str, ModuleType]]
    """The modules that offer its names, for a Trainer and for a Fabric."""

    exported: ClassVar[tuple[str, ...]]
    """The names that both have."""

    @pytest.mark.parametrize(
        ("order", "environ"),
        [(FIRST_THEIRS, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}), (FIRST_OURS, {})],
        ids=["its names first", "our names first"],
    )
    def test_our_backend_serves_an_installed_predecessors_names(
        self, sim: SimChip, install: Install, order: str, environ: dict[str, str]
    ) -> None:
        names = {"predecessor": self.predecessor, "name": sim.name, "several": self.several, "single": self.single}
        code = BESIDE.replace("{order}", order).format(**names)
        child = install(self.predecessor).python(code, NORTHBRIDGE_SIMULATE=sim.name, **environ)

        assert child.returncode == 0, child.stderr
        built = json.loads(child.stdout.splitlines()[-1])
        ours = "northbridge.lightning.pytorch"
        version = northbridge.installed()[0].version
        said = (
            f"accelerator={sim.name!r} is served by backend {sim.name!r} (northbridge-{sim.name} {version});"
            f" {self.predecessor!r} is installed too, and is not used:"
            f" pip uninstall {self.predecessor.replace('_', '-')}"
        )
        assert built == [[ours, ours, [said]], [ours, ours, []], [ours, ours, []]]

    def test_every_name_that_has_a_meaning_is_there(self) -> None:
        for module in self.homes.values():
            assert all(isinstance(getattr(module, name), type) for name in self.exported)

    @pytest.mark.parametrize("name", ["Whatever", "whatever"])
    def test_a_name_that_never_was_is_an_attribute_error(self, name: str) -> None:
        for module in self.homes.values():
            with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
                getattr(module, name)
