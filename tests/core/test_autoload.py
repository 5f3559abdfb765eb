"""The end of ``import torch``: it never raises, prints nothing, costs little, and serves the namespaces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

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
import northbridge

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


@pytest.fixture(scope="module")
def real(install: Install) -> Any:
    """Return the findings of the process above, after a check that it printed nothing else."""
    return install().answer(REAL, "-W", "error")


class TestBesideEveryBrokenVendor:
    def test_importing_torch_works_and_says_nothing(self, real: Any) -> None:
        assert real["at_import"] == []

    def test_importing_torch_imports_no_plugin(self, real: Any) -> None:
        assert real["vendors"] == []

    def test_importing_torch_imports_nothing_heavy(self, real: Any) -> None:
        assert real["heavy"] == []

    def test_importing_torch_imports_two_small_modules(self, real: Any) -> None:
        # What that costs is measured by `make bench` (autoload), whose bound is two milliseconds.
        assert set(real["ours"]) == {"northbridge", "northbridge.process_record", "northbridge.autoload"}

    def test_a_namespace_is_served_and_the_record_and_the_log_say_so(self, real: Any) -> None:
        assert [each["outcome"] for each in real["record"] if each["subject"] == "lightning_fabric"] == ["registered"]
        assert any(each.startswith("DEBUG lightning_fabric: registered: ") for each in real["lines"])

    def test_healthy_backends_are_registered(self, real: Any) -> None:
        assert {"cpu_sim", "acme"} <= set(real["registered"])

    def test_lightnings_name_stays_and_is_recorded(self, real: Any) -> None:
        refused = {"subject": "cuda", "outcome": "refused", "reason": "the name is Lightning's own"}

        assert real["cuda"].startswith("lightning_fabric.")
        assert refused in real["record"]
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


class TestServing:
    def test_namespace_imported_later_is_served(self, site: Site) -> None:
        told = site.answer(
            WATCHED
            + "registration.register = lambda namespace: served.append(sys.modules[f'{namespace}.connector'].run)\n"
            "arm(); early = list(served)\nimport lightning_fabric.connector\ntell(early=early)"
        )

        assert (told["early"], told["served"]) == ([], [True])

    def test_a_namespace_that_has_been_imported_is_served_at_once(self, site: Site) -> None:
        told = site.answer(WATCHED + "import lightning_fabric.connector\narm(); tell()")

        assert told["served"] == ["lightning_fabric"]

    def test_a_namespace_without_its_connector_is_left_alone(self, site: Site) -> None:
        assert site.answer(WATCHED + "import lightning_fabric\narm(); tell()")["served"] == []

    def test_a_connector_that_is_reloaded_is_served_again(self, site: Site) -> None:
        told = site.answer(
            WATCHED + "arm()\nimport lightning_fabric.connector as connector\nimportlib.reload(connector)\n"
            "importlib.reload(connector)\ntell()"
        )

        assert told["served"] == ["lightning_fabric"] * 3

    def test_arming_twice_watches_once(self, site: Site) -> None:
        told = site.answer(WATCHED + "arm(); arm()\nimport lightning_fabric.connector\ntell(finders=len(finders()))")

        assert (told["finders"], told["served"]) == (2, ["lightning_fabric"])

    def test_the_connectors_loader_is_itself_afterwards(self, site: Site) -> None:
        told = site.answer(
            WATCHED + "arm()\nimport lightning_fabric.connector as connector\n"
            "tell(loader=type(connector.__loader__).__name__, extra='exec_module' in vars(connector.__loader__))"
        )

        assert (told["loader"], told["extra"]) == ("SourceFileLoader", False)

    def test_other_finders_are_not_asked_in_circles(self, site: Site) -> None:
        told = site.answer(
            # As torch does. Those two tools let no module be tried that is not there, as `copy` tries one.
            "import copy\n" + WATCHED + "class Tool:\n"
            "    def find_spec(self, name, path, target=None):\n"
            "        others = (each.find_spec(name, path, target) for each in sys.meta_path if each is not self)\n"
            "        return next((spec for spec in others if spec), None)\n"
            "arm(); sys.meta_path.insert(0, Tool()); sys.meta_path.append(Tool())\n"
            "import lightning_fabric.connector\ntell()"
        )

        assert told["served"] == ["lightning_fabric"]

    def test_second_copy_of_northbridge_does_no_harm(self, site: Site) -> None:
        told = site.answer(
            WATCHED + "arm(); importlib.reload(northbridge.autoload).arm()\n"
            "import lightning_fabric.connector\ntell(finders=len(finders()))"
        )

        assert (told["finders"], set(told["served"])) == (4, {"lightning_fabric"})


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
            ("def register(namespace): raise LookupError('no table')", "LookupError: no table"),
            ("def register(namespace):\n import warnings; warnings.warn('odd')", "UserWarning: odd"),
            ("", "AttributeError: module 'northbridge.lightning.corrections.table' has no attribute 'register'"),
        ],
        ids=["registration raises", "registration warns, and warnings are errors", "registration is gone"],
    )
    def test_the_namespace_still_imports_and_the_fault_is_recorded(self, breaks: str, reason: str, site: Site) -> None:
        told = site.answer(
            WATCHED + "import logging\nlines = []\nkeep = logging.Handler()\nkeep.emit = lines.append\n"
            "logging.getLogger('northbridge').addHandler(keep)\nlogging.getLogger('northbridge').setLevel('INFO')\n"
            f"del registration.register; exec({breaks!r}, vars(registration))\n"
            "arm()\nimport lightning_fabric.connector as connector\n"
            "tell(run=connector.run, lines=[f'{each.levelname} {each.getMessage()}' for each in lines])",
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

        told = site.answer(
            WATCHED + "arm()\ntry:\n    import lightning_fabric.connector\nexcept OSError as error:\n"
            "    tell(raised=str(error))"
        )

        assert (told["raised"], told["served"]) == ("half an installation", [])

    @pytest.mark.parametrize(
        "module",
        ["None", "object()", "ModuleType('lightning_fabric.connector')"],
        ids=["blocked", "of no kind", "without a spec"],
    )
    def test_odd_connector_does_not_make_it_raise(self, module: str, site: Site) -> None:
        told = site.answer(WATCHED + f"sys.modules['lightning_fabric.connector'] = {module}\narm(); tell()")

        assert told["record"] == []

    def test_read_only_import_system_does_not_make_it_raise(self, site: Site) -> None:
        told = site.answer(WATCHED + "sys.meta_path = tuple(sys.meta_path)\narm(); tell()")

        (entry,) = told["record"]
        assert (entry["subject"], entry["outcome"]) == ("northbridge", "failed")
        assert entry["reason"].startswith("autoload: AttributeError: ")


class TestSwitchedOff:
    def test_one_switches_the_whole_of_northbridge_off(self, install: Install) -> None:
        told = install("acme").answer(WATCHED + "arm(); tell(finders=len(finders()))", NORTHBRIDGE_DISABLE="1")

        assert told["finders"] == 0
        assert told["record"] == [{"subject": "northbridge", "outcome": "off", "reason": "NORTHBRIDGE_DISABLE=1"}]

    def test_a_name_leaves_the_rest_on(self, install: Install) -> None:
        told = install("acme").answer(WATCHED + "arm(); tell(finders=len(finders()))", NORTHBRIDGE_DISABLE="acme")

        assert (told["finders"], told["record"]) == (2, [])


def test_torch_finds_it_among_its_entry_points(install: Install) -> None:
    points = install("acme").python(
        "from importlib.metadata import entry_points;"
        " print(*(each.value for each in entry_points(group='torch.backends') if each.name == 'northbridge'))"
    )

    assert points.stdout.split() == ["northbridge.autoload:arm"]
