"""The walk through a backend's code that finds what it names of a vendor's software; the vendor is a made-up one."""

from __future__ import annotations

import pytest
from tests.backends.simulation.vendor_symbols import symbols, variables

PACKAGES = ("acme_frameworks", "acmeml")
CODE = """
import importlib, sys, torch
import acme_frameworks.torch.core as core
from acme_frameworks.torch.core import imported as other
from torch import acme

importlib.import_module('acme_frameworks.torch.core').by_import_module()
sys.modules['acme_frameworks.torch.core'].by_sys_modules()
getattr(core, 'asked_for', None)
for each in ("in_a_loop",): getattr(core, each)
NAMES = {"in_a_table": 1}
found = [getattr(core, name) for name, number in NAMES.items()]
torch.acme.of_torch()
torch.get_device_module('acme').by_its_name()
hasattr(acme, 'perhaps')

class Bridge:
    def load(self):
        self._core = core
    def _found(self):
        import acme_frameworks.torch.core as inner
        return inner
    def after_step(self):
        self._core.of_an_attribute()
        self._found().of_a_method()
        module = self.module
        module.of_the_device()

def begin():
    yield core
with begin() as opened:
    opened.of_a_generator()
"""
FOLLOWED = (
    "imported by_import_module by_sys_modules asked_for in_a_loop in_a_table of_an_attribute of_a_method of_a_generator"
)


def test_it_follows_a_module_to_its_functions() -> None:
    named = {use.name for use in symbols(CODE, PACKAGES, "acme")}

    assert {f"acme_frameworks.torch.core.{each}" for each in FOLLOWED.split()} <= named
    assert {f"torch.acme.{each}" for each in ("of_torch", "by_its_name", "perhaps", "of_the_device")} <= named
    assert {use.name for use in symbols(CODE, PACKAGES, "acme") if use.is_question} == {
        "torch.acme.perhaps",
        *(f"acme_frameworks.torch.core.{each}" for each in ("asked_for", "in_a_loop", "in_a_table")),
    }


def test_it_refuses_what_nobody_can_read() -> None:
    with pytest.raises(ValueError, match=r"line 2: getattr\(acmeml, name\) names no constant"):
        symbols("import acmeml\ngetattr(acmeml, name)", PACKAGES, "acme")


def test_it_sees_variables() -> None:
    asked = (
        "os.environ['A']\nos.environ.setdefault('B', '1')\nos.getenv('C')\nclass S:\n    prefix = ''\n    d: int = 1"
    )
    text = "raise ValueError(f'ACME_LAZY_MODE={1} is wrong')"

    assert {use.name for use in variables(f"{asked}\n{text}", ("ACME", "ACCL"))} == {*"ABCD", "ACME_LAZY_MODE"}
