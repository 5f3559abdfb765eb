"""Stand-ins for a vendor's software: when they stand, and when they are refused."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests.core.conftest import Install, Site

import northbridge
from northbridge.discovery import simulated

TELL = """
import json, sys
from importlib.util import find_spec
import {first}
import northbridge
from northbridge.discovery import simulated

told = {{"modules": [name for name in ("torch_stood_in",) if find_spec(name)]}}
told["imported"] = "torch_stood_in" in sys.modules
try:
    backend = northbridge.get({name!r})
    told["simulated"] = backend.capabilities.simulated
    told["devices"] = northbridge.available().get({name!r})
    import torch_stood_in
    told["origin"] = torch_stood_in.__file__
    told["sub"] = __import__("torch_stood_in.inner").inner.NAME
except northbridge.NorthbridgeError as error:
    told["error"] = type(error).__name__, str(error), error.backend
told["record"] = [each.as_dict() for each in northbridge.record() if each.subject == {name!r}]
print(json.dumps(told))
"""


def tell(name: str = "stood_in", first: str = "torch") -> str:
    return TELL.format(name=name, first=first)


@pytest.fixture(scope="module")
def site(install: Install) -> Site:
    return install("stood_in", "acme")


def test_a_backend_is_simulated_where_the_variable_names_it(site: Site) -> None:
    told = site.answer(tell(), NORTHBRIDGE_SIMULATE="stood_in")

    assert told["simulated"] is True
    assert told["devices"] == 3
    assert told["origin"].endswith("northbridge_stood_in/simulated/torch_stood_in/__init__.py")
    assert told["sub"] == "torch_stood_in.inner"


THREADS = """
import json, sys, threading
import northbridge, northbridge.discovery.declared

sys.setswitchinterval(1e-6)
start, found = threading.Barrier(8), []

def ask():
    start.wait()
    found.append(id(northbridge.get("stood_in")))

threads = [threading.Thread(target=ask) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
finders = [finder for finder in sys.meta_path if type(finder).__name__ == "StandIns"]
print(json.dumps([len(found), len(set(found)), len(finders)]))
"""


@pytest.mark.parametrize(("simulated", "finders"), [("", 0), ("stood_in", 1)])
def test_threads_get_one_backend(site: Site, simulated: str, finders: int) -> None:
    assert site.answer(THREADS, NORTHBRIDGE_SIMULATE=simulated) == [8, 1, finders]


def test_the_stand_ins_can_be_imported_when_torch_has_been(site: Site) -> None:
    told = site.answer(tell(), NORTHBRIDGE_SIMULATE="stood_in")

    assert (told["modules"], told["imported"]) == (["torch_stood_in"], False)
    assert told["record"][0] == {
        "subject": "stood_in",
        "outcome": "simulated",
        "reason": "NORTHBRIDGE_SIMULATE names it: torch_stood_in are stand-ins here",
    }


LOOKED = """
import json, sys, types
other = sys.modules["another_package"] = types.ModuleType("another_package")
other.STOOD_IN_FOUND = False
import torch
print(json.dumps(other.STOOD_IN_FOUND))
"""


def test_package_that_looked_before_learns_of_the_stand_ins(site: Site) -> None:
    assert site.answer(LOOKED, NORTHBRIDGE_SIMULATE="stood_in") is True
    assert site.answer(LOOKED) is False


def test_unknown_name_is_an_error_and_runs_nothing_else(site: Site) -> None:
    told = site.answer(tell("acme"), NORTHBRIDGE_SIMULATE="Stood_In")

    kind, sentence, backend = told["error"]
    assert (kind, backend) == ("BackendNotFoundError", "Stood_In")
    assert sentence.startswith("NORTHBRIDGE_SIMULATE=Stood_In: no backend 'Stood_In' is installed; found acme,")
    assert sentence.endswith("Did you mean 'stood_in'?")


def test_without_autoload_the_backend_brings_stand_ins(site: Site) -> None:
    told = site.answer(tell(), NORTHBRIDGE_SIMULATE="stood_in", TORCH_DEVICE_BACKEND_AUTOLOAD="0")

    assert (told["modules"], told["simulated"]) == ([], True)


@pytest.mark.parametrize("environ", [{}, {"NORTHBRIDGE_SIMULATE": "cpu_sim"}], ids=["unset", "another"])
def test_nothing_is_simulated_unless_the_variable_names_it(site: Site, environ: dict[str, str]) -> None:
    told = site.python(tell(), **environ)

    assert "ModuleNotFoundError: No module named 'torch_stood_in'" in told.stderr


def test_beside_the_real_software_it_is_refused(install: Install, tmp_path: Path) -> None:
    site = install("stood_in")
    (site.here / "torch_stood_in.py").write_text("REAL = True")
    try:
        told = site.answer(tell(), NORTHBRIDGE_SIMULATE="stood_in")
    finally:
        (site.here / "torch_stood_in.py").unlink()

    kind, message, backend = told["error"]
    assert (kind, backend) == ("SimulationError", "stood_in")
    assert message == (
        "NORTHBRIDGE_SIMULATE=stood_in, but the real 'torch_stood_in' is installed"
        f" ({site.here / 'torch_stood_in.py'})."
        " Fix: unset it, or uninstall 'torch_stood_in'"
    )
    assert told["record"][0]["outcome"] == "not simulated"


def test_a_backend_that_nobody_simulates_is_not_run_for_real(site: Site) -> None:
    told = site.answer(tell("acme"), NORTHBRIDGE_SIMULATE="acme")

    assert told["error"] == [
        "SimulationError",
        ("NORTHBRIDGE_SIMULATE=acme, but no installed distribution simulates it. Fix: unset it to use the real chip"),
        "acme",
    ]


def test_what_runs_for_real_already_is_not_taken_for_simulated(site: Site) -> None:
    code = """
import json, os
import torch, northbridge

northbridge.load("acme")
os.environ["NORTHBRIDGE_SIMULATE"] = "acme"
try:
    northbridge.get("acme")
except northbridge.SimulationError as error:
    print(json.dumps(str(error)))
"""

    assert site.answer(code) == (
        "NORTHBRIDGE_SIMULATE=acme, but this process already uses the real chip. Fix: set it before the process starts"
    )


@pytest.mark.usefixtures("install_here")
def test_a_simulation_of_two_distributions_is_refused(install_here: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install_here("stood_in", "stood_in_too")
    monkeypatch.setenv("NORTHBRIDGE_SIMULATE", "stood_in")

    with pytest.raises(northbridge.BackendConflictError) as caught:
        northbridge.get("stood_in")

    assert str(caught.value) == (
        "simulation 'stood_in' is installed twice: northbridge-stood-in 1.2.3 and northbridge-stood-in-too"
        " 1.2.3. Fix: uninstall one"
    )


def test_a_hook_that_returns_another_thing_is_broken(install_here: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install_here("acme", "simulation_returns_dict")
    monkeypatch.setenv("NORTHBRIDGE_SIMULATE", "acme")

    with pytest.raises(northbridge.PluginError) as caught:
        northbridge.get("acme")

    assert str(caught.value).startswith(
        "simulation 'acme' (northbridge-simulation-returns-dict 1.2.3): northbridge_simulation() must"
        " return a Simulation, found {"
    )


def test_a_stand_in_that_raises_leaves_nothing_behind(install_here: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install_here("acme", "stand_in_raises")
    monkeypatch.setenv("NORTHBRIDGE_SIMULATE", "acme")
    northbridge.get("acme")  # imports no stand-in

    with pytest.raises(northbridge.SimulationError) as caught:
        import_module("torch_anvil")

    assert str(caught.value).startswith("NORTHBRIDGE_SIMULATE=acme: importing ")
    assert str(caught.value).endswith(
        "torch_anvil.py raised OSError: libanvil.so.3 is not there. Fix: upgrade its distribution"
    )
    assert "torch_anvil" not in sys.modules


def test_stand_in_that_torch_imports_comes_with_torch(install: Install) -> None:
    code = "import json, torch, sys; print(json.dumps('torch_flint' in sys.modules))"

    assert install("flint").answer(code, NORTHBRIDGE_SIMULATE="flint") is True


def test_a_command_that_is_stood_in_for_answers_and_no_other(install: Install) -> None:
    code = """
import json, torch, northbridge
ask = lambda tool: northbridge.run_tool(tool, "--short", backend="flint")
print(json.dumps([ask("flint-smi"), ask("other-smi")]))
"""

    site = install("flint")

    assert site.answer(code, NORTHBRIDGE_SIMULATE="flint") == ["2 cards, asked with --short\n", None]
    assert site.answer(code) == [None, None]


def test_raising_stand_in_does_not_stop_lightning(install: Install) -> None:
    code = """
import json, torch, northbridge
import lightning_fabric
from lightning_fabric.accelerators import ACCELERATOR_REGISTRY
told = [each.outcome for each in northbridge.record() if each.subject == "acme"]
print(json.dumps(["acme" in ACCELERATOR_REGISTRY, told]))
"""

    served, outcomes = install("acme", "stand_in_raises").answer(code, NORTHBRIDGE_SIMULATE="acme")

    assert served
    assert "not simulated" in outcomes


def test_chip_of_torchs_own_changes_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its module is imported at the end of ``import torch``, or when the backend is loaded."""
    (tmp_path / "changes_torch.py").write_text("raise OSError('no compiler')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(simulated._simulations, "acme", northbridge.Simulation({}, built_in="changes_torch"))

    simulated.import_with_torch("acme")  # noted: `import torch` must not break
    assert northbridge.record()[-1].as_dict() == {
        "subject": "acme",
        "outcome": "not imported with torch",
        "reason": "OSError: no compiler",
    }
    with pytest.raises(OSError, match="no compiler"):
        simulated.change_torch("acme")
    (tmp_path / "changes_torch.py").write_text("CHANGED = True  # by now\n")
    simulated.change_torch("acme")
    assert sys.modules.pop("changes_torch").CHANGED
