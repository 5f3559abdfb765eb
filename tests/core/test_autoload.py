"""The end of ``import torch``: it never raises, prints nothing, costs little, and serves the namespaces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.core.conftest import Install, Site

# Imports torch with everything in tests/vendors installed, and then a namespace of the real Lightning.
REAL = """
import json, logging, sys

lines = []
class Keep(logging.Handler):
    def emit(self, record):
        lines.append(f"{record.levelname} {record.getMessage()}")

logging.getLogger("northbridge").addHandler(Keep())
logging.getLogger("northbridge").setLevel(logging.DEBUG)

import torch
import northbridge

at_import = [each.as_dict() for each in northbridge.record()]
vendors = [each for each in sys.modules if each.startswith("northbridge_")]
heavy = [each for each in ("pydantic", "pluggy", "lightning_fabric") if each in sys.modules]
ours = [each for each in sys.modules if each.partition(".")[0] == "northbridge"]

import lightning_fabric
from lightning_fabric.accelerators import ACCELERATOR_REGISTRY
print(json.dumps({
    "at_import": at_import,
    "vendors": vendors,
    "heavy": heavy,
    "ours": ours,
    "record": [each.as_dict() for each in northbridge.record()],
    "lines": lines,
    "registered": list(ACCELERATOR_REGISTRY),
    "cuda": ACCELERATOR_REGISTRY["cuda"]["accelerator"].__module__,
}))
"""

# A namespace without Lightning: its registration is watched, its connector is an empty module.
WATCHED = """
import importlib, json, sys
from types import ModuleType

import northbridge.autoload
from northbridge.autoload import arm

served = []
registration = ModuleType("northbridge.lightning.corrections.table")
registration.register = served.append
sys.modules["northbridge.lightning.corrections.table"] = registration

def finders():
    return [each for each in sys.meta_path if type(each).__module__ == "northbridge.autoload"]

def tell(**more):
    print(json.dumps({"served": served, "record": [each.as_dict() for each in northbridge.record()], **more}))
"""


def test_beside_every_broken_vendor(install: Install) -> None:
    """Importing torch works, says nothing and imports little; a namespace is served, and the record and log say so.

    What that costs is measured by `make bench` (autoload), whose bound is two milliseconds.
    """
    real = install().answer(REAL, "-W", "error")

    assert set(real["ours"]) == {"northbridge", "northbridge.process_record", "northbridge.autoload"}
    assert (real["at_import"], real["vendors"], real["heavy"]) == ([], [], [])
    assert [each["outcome"] for each in real["record"] if each["subject"] == "lightning_fabric"] == ["registered"]
    assert any(each.startswith("DEBUG lightning_fabric: registered: ") for each in real["lines"])
    assert {"cpu_sim", "acme"} <= set(real["registered"])
    assert real["cuda"].startswith("lightning_fabric.")  # Lightning's name stays
    assert {"subject": "cuda", "outcome": "refused", "reason": "the name is Lightning's own"} in real["record"]
    assert "INFO cuda: refused: the name is Lightning's own" in real["lines"]


@pytest.fixture
def site(install: Install, tmp_path: Path) -> Site:
    """A place with a lightning_fabric of the test's own."""
    namespace = tmp_path / "lightning_fabric"
    namespace.mkdir()
    (namespace / "__init__.py").write_text("")
    (namespace / "connector.py").write_text("run = True\n")
    site = install("acme")
    return replace(site, folders=(tmp_path, *site.folders))


TOOL = """
class Tool:
    def find_spec(self, name, path, target=None):
        others = (each.find_spec(name, path, target) for each in sys.meta_path if each is not self)
        return next((spec for spec in others if spec), None)
arm(); sys.meta_path.insert(0, Tool()); sys.meta_path.append(Tool())
"""
IMPORT, CONNECTOR = "import lightning_fabric.connector", "import lightning_fabric.connector as connector"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        pytest.param(
            "registration.register = lambda namespace: served.append(sys.modules[f'{namespace}.connector'].run)\n"
            f"arm(); early = list(served)\n{IMPORT}\ntell(early=early)",
            {"early": [], "served": [True]},
            id="imported later",
        ),
        pytest.param(f"{IMPORT}\narm(); tell()", {"served": ["lightning_fabric"]}, id="imported before"),
        pytest.param("import lightning_fabric\narm(); tell()", {"served": []}, id="without its connector"),
        pytest.param(
            f"arm()\n{CONNECTOR}\nimportlib.reload(connector); importlib.reload(connector)\ntell()",
            {"served": ["lightning_fabric"] * 3},
            id="reloaded",
        ),
        pytest.param(
            f"arm(); arm()\n{IMPORT}\ntell(finders=len(finders()))",
            {"finders": 2, "served": ["lightning_fabric"]},
            id="armed twice",
        ),
        pytest.param(
            f"arm()\n{CONNECTOR}\nloader = connector.__loader__\n"
            "tell(loader=type(loader).__name__, extra='exec_module' in vars(loader))",
            {"loader": "SourceFileLoader", "extra": False},  # it is itself afterwards
            id="loader",
        ),
        # Those tools ask all finders too. As torch does, `copy` is imported first: they let no absent module be tried.
        pytest.param(f"import copy\n{TOOL}{IMPORT}\ntell()", {"served": ["lightning_fabric"]}, id="other finders"),
        pytest.param(
            f"arm(); importlib.reload(northbridge.autoload).arm()\n{IMPORT}\n"
            "served[:] = set(served); tell(finders=len(finders()))",
            {"finders": 4, "served": ["lightning_fabric"]},
            id="a second copy of northbridge",
        ),
        *(
            pytest.param(
                f"sys.modules['lightning_fabric.connector'] = {module}\narm(); tell()",
                {"record": []},
                id=f"odd: {module}",
            )
            for module in ("None", "object()", "ModuleType('lightning_fabric.connector')")
        ),
    ],
)
def test_a_namespace_is_served(code: str, found: dict[str, object], site: Site) -> None:
    told = site.answer(f"{WATCHED}{code}")

    assert {name: told[name] for name in found} == found


class TestChipsThatAreNotLoaded:
    def test_their_modules_say_what_to_write(self, install: Install) -> None:
        """torch imports the module for a tensor on a device type of its own that nothing has brought to life."""
        told = install("acme", "load_needs_software").answer(
            WATCHED + "torch = sys.modules['torch'] = ModuleType('torch'); torch.__path__ = []\n"
            "arm(); said = []\n"
            "for name in ('acme', 'load_needs_software', 'unknown'):\n"
            "    try:\n        importlib.import_module(f'torch.{name}')\n"
            "    except ModuleNotFoundError as error:\n        said.append(str(error))\n"
            "asked = importlib.util.find_spec('torch.acme')\n"
            "tell(said=said, asked=asked or sys.meta_path[-1].find_spec('torch.acme', None))"
        )

        known, missing, unknown = told["said"]
        assert known == (
            "No module named 'torch.acme': backend 'acme' (northbridge-acme 0.1.0) is not loaded. Fix: import"
            " northbridge; northbridge.load('acme')"
        )
        assert missing == (
            "No module named 'torch.load_needs_software': backend 'load_needs_software'"
            " (northbridge-load-needs-software 1.2.3): its software 'torch_load_needs_software' is not installed. Fix:"
            " install the vendor's package"
        )
        assert unknown == "No module named 'torch.unknown'"
        assert (told["asked"], told["record"]) == (None, [])


class TestWhateverIsBroken:
    @pytest.mark.parametrize(
        ("breaks", "reason"),
        [
            ("def register(namespace):\n import warnings; warnings.warn('odd')", "UserWarning: odd"),
            ("", "AttributeError: module 'northbridge.lightning.corrections.table' has no attribute 'register'"),
        ],
        ids=["registration warns, and warnings are errors", "registration is gone"],
    )
    def test_the_namespace_still_imports_and_the_fault_is_recorded(self, breaks: str, reason: str, site: Site) -> None:
        told = site.answer(
            f"{WATCHED}del registration.register; exec({breaks!r}, vars(registration))\n"
            "import logging\nlines, keep, log = [], logging.Handler(), logging.getLogger('northbridge')\n"
            "keep.emit = lambda each: lines.append(f'{each.levelname} {each.getMessage()}')\n"
            "log.addHandler(keep); log.setLevel('INFO')\n"
            f"arm()\n{CONNECTOR}\ntell(run=connector.run, lines=lines)",
            "-W",
            "error",
        )

        (entry,) = told["record"]
        assert told["run"]
        assert (entry["subject"], entry["outcome"]) == ("lightning_fabric", "left alone")
        assert entry["reason"].startswith(reason)
        assert told["lines"] == [f"INFO lightning_fabric: left alone: {entry['reason']}"]

    def test_raising_connector_is_not_served(self, site: Site) -> None:
        (site.folders[0] / "lightning_fabric" / "connector.py").write_text("raise OSError('half an installation')\n")

        told = site.answer(f"{WATCHED}arm()\ntry:\n    {IMPORT}\nexcept OSError as error:\n    tell(raised=str(error))")

        assert (told["raised"], told["served"]) == ("half an installation", [])

    def test_read_only_import_system_does_not_make_it_raise(self, site: Site) -> None:
        told = site.answer(WATCHED + "sys.meta_path = tuple(sys.meta_path)\narm(); tell()")

        (entry,) = told["record"]
        assert (entry["subject"], entry["outcome"]) == ("northbridge", "failed")
        assert entry["reason"].startswith("autoload: AttributeError: ")


OFF = {"subject": "northbridge", "outcome": "off", "reason": "NORTHBRIDGE_DISABLE=1"}


@pytest.mark.parametrize(("disabled", "finders", "record"), [("1", 0, [OFF]), ("acme", 2, [])])
def test_1_switches_off_the_whole_of_northbridge(
    install: Install, disabled: str, finders: int, record: list[object]
) -> None:
    told = install("acme").answer(f"{WATCHED}arm(); tell(finders=len(finders()))", NORTHBRIDGE_DISABLE=disabled)

    assert (told["finders"], told["record"]) == (finders, record)
