"""Names of strategies and accelerators that a plugin's metadata adds; the plugin is ``tests/vendors/anvil``."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.core.conftest import Install, Site
from tests.scripts import run_forked

QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
PREDECESSOR = """
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from lightning.pytorch.accelerators import AcceleratorRegistry, CPUAccelerator
from lightning.pytorch.strategies import DDPStrategy, StrategyRegistry

archived = ModuleType("lightning_anvil")  # what an archived package would have done, found and imported
archived.__spec__ = ModuleSpec("lightning_anvil", None)
sys.modules["lightning_anvil"] = archived
TheirAccelerator = type("AnvilAccelerator", (CPUAccelerator,), {"__module__": "lightning_anvil.accelerator"})
TheirStrategy = type("AnvilDDPStrategy", (DDPStrategy,), {"__module__": "lightning_anvil"})

def register_theirs():
    AcceleratorRegistry.register("anvil", TheirAccelerator, override=True)
    StrategyRegistry.register("anvil_ddp", TheirStrategy, override=True)
"""
TELL = """
import json, warnings
import northbridge

def told(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            said = function()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
    return {"said": said, "warned": [str(each.message) for each in caught]}

def record(*subjects):
    return [[each.subject, each.outcome, each.reason] for each in northbridge.record() if each.subject in subjects]
"""


def ask_afresh(site: Site, code: str, **environ: str) -> Any:
    """Return what ``code`` finds where the variables are read when Lightning is imported."""
    child = site.python(f"{TELL}\n{code}", **environ)
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout.splitlines()[-1])


def ask(site: Site, code: str) -> Any:
    """Return what ``code`` finds, in the fork of a process in which Northbridge serves Lightning."""
    script = site.here / "ask.py"
    script.write_text(f"{TELL}\n{code}")
    ran = run_forked(script, folder=site.here, environ=site.environ())
    assert ran.status == 0, ran.said
    return json.loads(ran.said.splitlines()[-1])


def build(host: str, **arguments: Any) -> str:
    """The code that builds a Trainer or Fabric and tells what strategy it has."""
    quiet = QUIET if host == "Trainer" else {}
    given = ", ".join(f"{key}={value!r}" for key, value in {**quiet, **arguments}.items())
    return f"told(lambda: repr({host}({given}).strategy).split(' ')[0])"


@pytest.fixture(scope="module")
def site(install: Install) -> Site:
    return install("anvil")


REGISTERED = """
import sys
from lightning.pytorch.strategies import StrategyRegistry
from lightning.fabric.strategies import STRATEGY_REGISTRY
import lightning.pytorch
found = [sorted(name for name in registry if "anvil" in name.lower() and "ddp_anvil" not in name)
         for registry in (StrategyRegistry, STRATEGY_REGISTRY)]
kept = [type(StrategyRegistry["single_anvil"]["strategy"]).__name__, StrategyRegistry["ddp"]["strategy"].__module__]
imported = "northbridge_anvil" in sys.modules
registered = [found, kept, "nobodys_ddp" in StrategyRegistry, imported, record("ddp", "anvil")]
print(json.dumps(registered))
"""


USED = f"""
{REGISTERED}
from lightning.pytorch import Trainer
from lightning.fabric import Fabric
import northbridge_anvil
print(json.dumps([registered, {{
    "ddp": {build("Trainer", accelerator="anvil", devices=2, strategy="anvil_ddp")},
    "upper": {build("Fabric", devices=2, strategy="ANVIL_DDP")},
    "single": {build("Trainer", strategy="anvil_single")},
    "misspelt": {build("Trainer", strategy="anvil_sinlge")},
    "cpu": {build("Trainer", accelerator="cpu", strategy="anvil_ddp")},
    "gone": {build("Trainer", strategy="anvil_gone")},
    "string": {build("Fabric", strategy="anvil_string")},
    "isinstance": isinstance(Fabric(devices=2, strategy="anvil_ddp").strategy, northbridge_anvil.AnvilDDPStrategy),
}}]))
"""


@pytest.fixture(scope="module")
def asked(site: Site) -> Any:
    """What is registered, and what comes of it."""
    return ask(site, USED)


@pytest.fixture
def registered(asked: Any) -> Any:
    return asked[0]


@pytest.fixture
def used(asked: Any) -> Any:
    return asked[1]


class TestRegistration:
    def test_further_names_register_without_an_import(self, registered: Any) -> None:
        """But one that nobody could find does not, nor that of a module without a plugin."""
        found, _, nobodys, imported, record = registered

        names = ["anvil_ddp", "anvil_gone", "anvil_single", "anvil_sinlge", "anvil_string", "single_anvil"]
        assert found == [names, names]
        assert (imported, nobodys) == (False, False)
        reason = "strategy 'Anvil-DDP': the name of a strategy is made of lower-case letters, digits and underscores"
        assert ["anvil", "refused", reason] in record

    def test_generic_names_and_lightnings_stay(self, registered: Any) -> None:
        _, kept, _, _, record = registered

        assert kept == ["ABCMeta", "lightning.pytorch.strategies.ddp"]
        reason = "lightning.pytorch.strategies.ddp.DDPStrategy has it in lightning.pytorch"
        assert ["ddp", "left alone", reason] in record

    def test_names_of_a_disabled_backend_are_not_registered(self, site: Site) -> None:
        code = REGISTERED.replace('StrategyRegistry["single_anvil"]["strategy"]', "None")

        found, *_ = ask_afresh(site, code, NORTHBRIDGE_DISABLE="anvil")

        assert found == [[], []]


class TestUse:
    def test_further_name_works_in_any_case(self, used: Any) -> None:
        """It chooses the accelerator where the user chose none."""
        assert used["ddp"]["said"] == "<northbridge.lightning.pytorch.DDPStrategy"
        assert used["upper"]["said"] == "<northbridge.lightning.fabric.DDPStrategy"
        assert used["isinstance"] is True
        assert used["single"] == {"said": "<northbridge.lightning.pytorch.SingleDeviceStrategy", "warned": []}

    def test_a_plugin_can_warn_of_a_misspelt_one(self, used: Any) -> None:
        assert used["misspelt"] == {
            "said": "<northbridge.lightning.pytorch.SingleDeviceStrategy",
            "warned": ["strategy='anvil_sinlge' is misspelt; write 'anvil_single'"],
        }

    def test_it_is_refused_with_the_reason(self, used: Any) -> None:
        """On another accelerator, and where the plugin has it not, or has something else."""
        assert used["cpu"]["said"].startswith(
            "UnsupportedError: AnvilDDPStrategy is for 'anvil', not for accelerator='cpu'"
        )
        assert used["gone"]["said"] == (
            "PluginImportError: backend 'anvil' (northbridge-anvil 1.2.3): strategy='anvil_gone' cannot"
            " be made: AttributeError: module 'northbridge_anvil' has no attribute 'AnvilGoneStrategy'."
            " Fix: strategy='ddp'"
        )
        assert "cannot be made: TypeError: it returned 'ddp', not a StrategyName" in used["string"]["said"]


THEIRS_FIRST = f"""
{PREDECESSOR}
register_theirs()
import northbridge.lightning
from lightning.pytorch import Trainer
print(json.dumps([{build("Trainer", accelerator="anvil", devices=2)},
                  {build("Trainer", devices=2, strategy="anvil_ddp")}, record("anvil", "anvil_ddp")]))
"""
THEIRS_LAST = f"""
from lightning.pytorch import Trainer
{PREDECESSOR}
register_theirs()
print(json.dumps([{build("Trainer", accelerator="anvil", devices=2)},
                  {build("Trainer", devices=2, strategy="anvil_ddp")}, record("anvil", "anvil_ddp")]))
"""
THEIRS_UNGUARDED = THEIRS_LAST.replace(", override=True", "")
SAYS_AUTO = f"""
from lightning.pytorch import Trainer
{PREDECESSOR}
from lightning.pytorch.trainer.connectors import accelerator_connector
accelerator_connector._select_auto_accelerator = lambda: "anvil"  # as Lightning 2.5.5 does with an archived package
print(json.dumps([{build("Trainer", devices=2)}, record("auto")]))
"""
WITHOUT_AUTOLOAD = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
UNKNOWN = THEIRS_FIRST.replace("lightning_anvil", "another_package")
OURS = "<northbridge.lightning.pytorch.DDPStrategy"
SAID = (
    "accelerator='anvil' is served by backend 'anvil' (northbridge-anvil 1.2.3); 'lightning_anvil' is installed too,"
    " and is not used: pip uninstall lightning-anvil"
)


class TestSuccession:
    @pytest.mark.parametrize(
        ("code", "outcome", "reason"),
        [
            (THEIRS_FIRST, "taken over", "had it in lightning.pytorch"),
            (THEIRS_LAST, "taken over", "had it in lightning.pytorch"),
            (THEIRS_UNGUARDED, "left out", "tried to register it; Northbridge already has"),
        ],
        ids=["first", "last", "unguarded"],
    )
    def test_ours_serves_a_predecessors_name(self, site: Site, code: str, outcome: str, reason: str) -> None:
        by_accelerator, by_strategy, record = (
            ask_afresh(site, code, **WITHOUT_AUTOLOAD) if code == THEIRS_FIRST else ask(site, code)
        )

        assert by_accelerator == {"said": OURS, "warned": [SAID]}
        assert by_strategy == {"said": OURS, "warned": []}
        assert ["anvil", outcome, f"lightning_anvil.accelerator.AnvilAccelerator {reason}"] in record

    def test_a_package_that_nobody_succeeds_keeps_its_name(self, site: Site) -> None:
        by_accelerator, _, record = ask_afresh(site, UNKNOWN, **WITHOUT_AUTOLOAD)

        assert "northbridge" not in by_accelerator["said"]
        assert by_accelerator["warned"] == []
        assert [
            "anvil",
            "left alone",
            "another_package.accelerator.AnvilAccelerator has it in lightning.pytorch",
        ] in record

    def test_a_package_that_nobody_succeeds_may_take_the_name(self, site: Site) -> None:
        by_accelerator, _, record = ask(site, THEIRS_UNGUARDED.replace("lightning_anvil", "another_package"))

        assert "northbridge" not in by_accelerator["said"]
        assert ["anvil", "given up", "another_package.accelerator.AnvilAccelerator has registered it"] in record

    def test_lightnings_find_by_an_archived_package_is_ours(self, site: Site) -> None:
        built, record = ask(site, SAYS_AUTO)

        assert built == {"said": OURS, "warned": [SAID]}
        assert ["auto", "chose anvil", "Lightning found its hardware"] in record
