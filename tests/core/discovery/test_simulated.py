"""Stand-ins for a vendor's software: when they stand, and when they are refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.core.conftest import Install, Site

import northbridge
from northbridge import autoload
from northbridge.discovery import current, declared, simulated

TELL = """
import json, sys, types
from importlib.util import find_spec
looked = sys.modules["another_package"] = types.ModuleType("another_package")  # before the stand-ins were there
looked.STOOD_IN_FOUND = False
import torch
import northbridge

told = {"there": find_spec("torch_stood_in") is not None, "found": looked.STOOD_IN_FOUND}
told["imported"] = "torch_stood_in" in sys.modules
backend = northbridge.get("stood_in")
told["simulated"] = backend.capabilities.simulated
told["devices"] = northbridge.available().get("stood_in")
if find_spec("torch_stood_in"):
    import torch_stood_in
    told["origin"] = torch_stood_in.__file__
told["record"] = [each.as_dict() for each in northbridge.record() if each.subject == "stood_in"]
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def site(install: Install) -> Site:
    return install("stood_in", "acme")


def test_a_backend_is_simulated_where_the_variable_names_it(site: Site) -> None:
    """Without autoload it is the backend that brings the stand-ins."""
    told = site.answer(TELL, NORTHBRIDGE_SIMULATE="stood_in")
    alone = site.answer(TELL, NORTHBRIDGE_SIMULATE="stood_in", TORCH_DEVICE_BACKEND_AUTOLOAD="0")

    assert (alone["there"], alone["simulated"]) == (False, True)
    assert (told["simulated"], told["devices"]) == (True, 3)
    assert told["origin"].endswith("northbridge_stood_in/torch_stood_in.py")
    # Once torch was imported, the stand-ins could be found, and a package that had looked for them learned of it.
    assert (told["there"], told["imported"], told["found"]) == (True, False, True)
    assert told["record"][0] == {
        "subject": "stood_in",
        "outcome": "simulated",
        "reason": "NORTHBRIDGE_SIMULATE names it: torch_stood_in are stand-ins here",
    }


def test_nothing_is_simulated_unless_the_variable_names_it(
    site: Site, install_here: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = site.answer(TELL)

    assert (told["simulated"], told["there"], told["found"]) == (False, False, False)
    install_here("stood_in")
    monkeypatch.setenv("NORTHBRIDGE_SIMULATE", "cpu_sim")
    assert not northbridge.get("stood_in").capabilities.simulated


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


def test_threads_get_one_backend(site: Site) -> None:
    assert site.answer(THREADS, NORTHBRIDGE_SIMULATE="stood_in") == [8, 1, 1]


def test_beside_the_real_software_it_is_refused(
    install_here: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_here("stood_in")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "torch_stood_in.py").write_text("REAL = True")
    monkeypatch.setenv("NORTHBRIDGE_SIMULATE", "stood_in")
    autoload._put_stand_ins()  # at the end of `import torch`

    with pytest.raises(northbridge.SimulationError) as caught:
        northbridge.get("stood_in")

    assert str(caught.value) == (
        f"NORTHBRIDGE_SIMULATE=stood_in, but the real 'torch_stood_in' is installed ({tmp_path / 'torch_stood_in.py'})."
        " Fix: unset it, or uninstall 'torch_stood_in'"
    )
    assert (caught.value.backend, northbridge.record()[0].outcome) == ("stood_in", "not simulated")


def test_a_simulation_is_refused(install_here: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(name: str, backend: str = "acme") -> str:
        monkeypatch.setenv("NORTHBRIDGE_SIMULATE", name)
        with pytest.raises(northbridge.BackendError) as caught:
            northbridge.get(backend)
        assert caught.value.backend == name
        return f"{type(caught.value).__name__}: {caught.value}"

    install_here("acme", "stood_in", "stood_in_too")

    unknown = refusal("Stood_In")
    assert unknown.startswith(
        "BackendNotFoundError: NORTHBRIDGE_SIMULATE=Stood_In: no backend 'Stood_In' is installed; found acme,"
    )
    assert unknown.endswith("Did you mean 'stood_in'?")
    assert refusal("acme") == (
        "SimulationError: NORTHBRIDGE_SIMULATE=acme, but no installed distribution simulates it. Fix: unset it to use"
        " the real chip"
    )
    assert refusal("stood_in", "stood_in") == (
        "BackendConflictError: simulation 'stood_in' is installed twice: northbridge-stood-in 1.2.3 and"
        " northbridge-stood-in-too 1.2.3. Fix: uninstall one"
    )
    monkeypatch.setattr(current, "_up", [declared._declared["acme"]])
    assert refusal("acme") == (
        "SimulationError: NORTHBRIDGE_SIMULATE=acme, but this process already uses the real chip. Fix: set it before"
        " the process starts"
    )


def test_second_chip_is_refused_before_it_loads(install_here: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the variable names it by now, as a user may write who wants both."""
    install_here("stood_in")
    northbridge.load("cpu_sim")
    monkeypatch.setenv("NORTHBRIDGE_SIMULATE", "stood_in")

    with pytest.raises(northbridge.DeviceTypeTakenError) as caught:
        northbridge.load("stood_in")

    assert str(caught.value) == (
        "cannot load 'stood_in': torch already runs on 'cpu_sim' in this process. Fix: use another process"
    )
    assert "torch_stood_in" not in sys.modules


def test_stand_ins_of_a_module_and_of_a_command(install: Install) -> None:
    """torch imports the module at its end, and no other command has a stand-in."""
    code = """
import json, sys, torch, northbridge
ask = lambda tool: northbridge.run_tool(tool, "--short", backend="flint")
print(json.dumps(["torch_flint" in sys.modules, ask("flint-smi"), ask("other-smi")]))
"""

    site = install("flint")

    assert site.answer(code, NORTHBRIDGE_SIMULATE="flint") == [True, "2 cards, asked with --short\n", None]
    assert site.answer(code) == [False, None, None]


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
