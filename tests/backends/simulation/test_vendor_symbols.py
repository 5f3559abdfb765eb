"""The walk through a backend's code that finds what it names of a vendor's software; the vendor is a made-up one."""

from __future__ import annotations

import textwrap

import pytest
from tests.backends.simulation.vendor_symbols import symbols, variables

PACKAGES = ("acme_frameworks", "acmeml")


def named(source: str) -> set[str]:
    return {use.name for use in symbols(source, PACKAGES, "acme")}


@pytest.mark.parametrize(
    "source",
    [
        "import acme_frameworks.torch.core as core; core.mark_step()",
        "from acme_frameworks.torch.core import mark_step as mark; mark()",
        "import importlib; core = importlib.import_module('acme_frameworks.torch.core'); core.mark_step()",
        "from importlib import import_module; import_module('acme_frameworks.torch.core').mark_step()",
        "import sys; sys.modules['acme_frameworks.torch.core'].mark_step()",
        "import acme_frameworks.torch.core as core; getattr(core, 'mark_step', None)",
        """
        import acme_frameworks.torch.core as core
        for name in ("mark_step",): getattr(core, name)
        """,
        """
        import acme_frameworks.torch.core as core
        NAMES = {"mark_step": 1}
        found = [getattr(core, name) for name, number in NAMES.items()]
        """,
        """
        class Bridge:
            def load(self):
                import acme_frameworks.torch.core as core
                self._core = core
            def after_step(self):
                self._core.mark_step()
        """,
        """
        class Bridge:
            def _core(self):
                import acme_frameworks.torch.core as core
                return core
            def after_step(self):
                self._core().mark_step()
        """,
        """
        def core():
            import acme_frameworks.torch.core as core
            yield core
        def after_step():
            with core() as opened:
                opened.mark_step()
        """,
    ],
)
def test_it_follows_a_module_to_its_function(source: str) -> None:
    assert "acme_frameworks.torch.core.mark_step" in named(textwrap.dedent(source))


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.acme.synchronize()",
        "from torch import acme\nacme.synchronize()",
        "import torch\ntorch.get_device_module('acme').synchronize()",
        "import torch\nhasattr(torch.acme, 'synchronize')",
        "class D:\n    def f(self):\n        module = self.module\n        module.synchronize()",
    ],
)
def test_it_knows_the_names_of_torchs_device_module(source: str) -> None:
    assert "torch.acme.synchronize" in named(source)


def test_it_refuses_what_nobody_can_read() -> None:
    with pytest.raises(ValueError, match=r"line 2: getattr\(acmeml, name\) names no constant"):
        named("import acmeml\ngetattr(acmeml, name)")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import os\nos.environ['ID']", "ID"),
        ("import os\nos.environ.setdefault('ID', '1')", "ID"),
        ("import os\nos.getenv('ID')", "ID"),
        ("raise ValueError(f'ACME_LAZY_MODE={1} is wrong')", "ACME_LAZY_MODE"),
        ("class S:\n    prefix = ''\n    rank: int = 1", "RANK"),
    ],
)
def test_it_sees_variables(source: str, name: str) -> None:
    assert {use.name for use in variables(source, ("ACME", "ACCL"))} == {name}
