"""The simulated server: its settings, the acquisition of its cards by several processes, its record, ``pyhlml``."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.processes import Run
from tests.scripts import start_python

import northbridge
from northbridge_cpu_sim import Server
from northbridge_hpu.simulated.machine import HPUSimSettings


def read(**fields: str) -> HPUSimSettings:
    return HPUSimSettings.read({HPUSimSettings.variable(name): text for name, text in fields.items()})


def test_default_is_a_second_generation_card(tmp_path: Path) -> None:
    settings = read()
    assert (settings.generation, settings.release) == ("2", "1.22")
    assert settings.folder == read().folder
    assert read(server=str(tmp_path)).folder == tmp_path  # another folder is another server


@pytest.mark.parametrize(
    ("field", "text", "allowed"),
    [
        ("generation", "4", "1, 2 or 3"),
        ("release", "1.20", "a release of the vendor's software"),
        ("modules", "0,0,1", "a permutation such as 1,0,3,2"),
        ("server", "here", "the absolute path of a folder"),
        ("server", __file__, "the absolute path of a folder"),
    ],
)
def test_what_is_not_allowed_is_refused(field: str, text: str, allowed: str) -> None:
    with pytest.raises(northbridge.SettingsError) as refused:
        read(**{field: text})
    assert f"{HPUSimSettings.variable(field)}={text!r} is not " in str(refused.value)
    assert allowed in str(refused.value)


def test_modules_of_another_number_than_the_cards_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from northbridge_hpu.simulated.machine import module_ids

    monkeypatch.setenv("NORTHBRIDGE_HPU_SIM_MODULES", "1,0")
    with pytest.raises(northbridge.SettingsError, match=r"MODULES='1,0' names 2 of 8 cards"):
        module_ids()


TAKE = """
try:
    torch.ones(1, device="hpu")
except RuntimeError as error:
    print("refused:", error, flush=True)
else:
    print("taken", flush=True)
"""


ONLY = {"HLS_MODULE_ID": "3", "HABANA_VISIBLE_MODULES": "3"}
HELD = "refused: synStatus=20 [Device already acquired] Device acquire failed.\n"
SHOW_HELD = """
import os
from northbridge_hpu.simulated.machine import server
print([card for card in range(8) if server().holder(card) == os.getpid()])
"""


@pytest.mark.shows("module ids are not indices")
def test_the_named_module_is_taken_whatever_its_index(run: Run) -> None:
    said = run(TAKE + SHOW_HELD, HLS_MODULE_ID="1", NORTHBRIDGE_HPU_SIM_MODULES="3,2,1,0,7,6,5,4")
    assert said == "taken\n[2]\n"


def test_without_a_name_the_first_free_card_is_taken(run: Run, server: Server) -> None:
    assert run(TAKE + SHOW_HELD) == "taken\n[0]\n"
    server.acquire(0)
    assert run(TAKE + SHOW_HELD) == "taken\n[1]\n"
    for card in range(1, 8):
        server.acquire(card)
    assert run(TAKE) == HELD


@pytest.mark.shows("a process holds one card and calls it 0", "a card that is taken is exchanged for a free one")
def test_a_second_process_gets_another_card_or_waits(sim: SimChip, environment: dict[str, str], run: Run) -> None:
    environ = {**environment, "HLS_MODULE_ID": "3"}
    program = f"{sim.imports}{TAKE}input()\n"
    with start_python("-c", program, environ=environ, stdin=subprocess.PIPE, stderr=subprocess.STDOUT) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "taken\n"
        assert run(TAKE, HLS_MODULE_ID="3", WORLD_SIZE="16") == HELD  # fewer cards than ranks
        said = run(TAKE, HLS_MODULE_ID="3")
        assert "UserWarning: module 3 cannot be acquired" in said
        assert said.endswith("taken\n")
        end_holder = f"import os, time; os.kill({holder.pid}, {signal.SIGKILL}); time.sleep(1)\n"
        assert run(TAKE + TAKE + end_holder + TAKE, **ONLY) == 2 * HELD + "taken\n"
        holder.wait()


def test_a_module_that_is_not_there_cannot_be_taken(run: Run) -> None:
    said = run(TAKE, HLS_MODULE_ID="8", HABANA_VISIBLE_MODULES="8")
    assert said == "refused: synStatus=26 [Generic failure] Device acquire failed.\n"


FREE = """
torch.hpu.is_available()
torch.hpu.device_count()
torch.hpu.is_bf16_supported()
torch.hpu.is_initialized()
torch.hpu.set_device(5)
torch.hpu.manual_seed_all(1)
torch.manual_seed(1)
torch.hpu.get_rng_state(0)
from habana_frameworks.torch.utils import experimental; experimental._get_device_type()
"""


TAKING = """
torch.hpu.init()
torch.hpu.current_device()
torch.hpu.synchronize()
torch.hpu.get_device_name()
torch.hpu.get_device_capability()
torch.hpu.get_device_properties()
torch.hpu.memory_stats()
torch.hpu.reset_peak_memory_stats()
torch.hpu.get_rng_state()
torch.ones(1).to('hpu')
torch.hpu.Stream()
torch.hpu.current_stream()
torch.hpu.default_stream()
torch.hpu.stream(None).__enter__()
from habana_frameworks.torch.hpex.normalization import FusedClipNorm; FusedClipNorm([], 1.0)
"""
IN_A_FORK = """
import os
for question in {questions!r}:
    if not os.fork():
        before = torch.hpu._initialized, torch.hpu.is_initialized()
        exec(question)
        print(question, before, torch.hpu._initialized, torch.hpu.is_initialized(), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.parametrize(("questions", "holds"), [(FREE, "False False"), (TAKING, "True True")], ids=["free", "taking"])
def test_what_takes_the_card(run: Run, questions: str, holds: str) -> None:
    asked = questions.strip().splitlines()
    assert run(IN_A_FORK.format(questions=asked)).splitlines() == [f"{each} (False, False) {holds}" for each in asked]


def test_a_card_that_is_held_stays_the_one(run: Run) -> None:
    again = "import os; del os.environ['HLS_MODULE_ID']; torch.hpu.set_device(6)"
    assert run(TAKE + again + TAKE + SHOW_HELD, HLS_MODULE_ID="5") == "taken\ntaken\n[0]\n"


def test_what_is_used_is_written_down_under_torchs_name(run: Run, tmp_path: Path) -> None:
    run("htcore.hpu.device_count(); torch.manual_seed(1)", NORTHBRIDGE_CPU_SIM_RECORD=str(tmp_path))

    lines = (tmp_path / "touched").read_text().splitlines()
    assert {"call torch.hpu.device_count", "write MASTER_PORT", "call torch.manual_seed"} <= set(lines)


# pyhlml: what can be known of cards without taking one


@pytest.fixture
def hlml() -> Iterator[ModuleType]:
    """The management library, opened."""
    import pyhlml
    import torch  # noqa: F401 - the stand-ins are put in place at its end

    pyhlml.hlmlInit()
    yield pyhlml
    pyhlml.hlmlShutdown()


def test_module_ids_are_a_permutation_and_not_the_indices(hlml: ModuleType) -> None:
    cards = range(hlml.hlmlDeviceGetCount())
    modules = [hlml.hlmlDeviceGetModuleID(hlml.hlmlDeviceGetHandleByIndex(card)) for card in cards]
    assert sorted(modules) == list(cards)
    assert modules != list(cards)
    handle = hlml.hlmlDeviceGetHandleByIndex(0)
    texts = hlml.hlmlDeviceGetName(handle), hlml.hlmlGetDriverVersion(), hlml.hlmlGetHLMLVersion()
    assert texts[0] == b"HL-225"
    assert all(isinstance(text, bytes) for text in texts)


def test_a_held_card_shows_it_is_in_use(run: Run) -> None:
    look = """
    import pyhlml
    pyhlml.hlmlInit()
    torch.hpu.init()
    for card in 0, 1:
        handle = pyhlml.hlmlDeviceGetHandleByIndex(card)
        memory = pyhlml.hlmlDeviceGetMemoryInfo(handle)
        load = pyhlml.hlmlDeviceGetUtilizationRates(handle)
        print(memory.used >> 20, memory.free >> 20, memory.total >> 20, load.aip)
    """
    assert run(look) == "98304 0 98304 0\n768 97536 98304 0\n"


def test_the_library_is_opened_once_and_knows_its_cards(hlml: ModuleType) -> None:
    with pytest.raises(hlml.HLMLError_AlreadyInitialized, match=r"already initialized \(5\)"):
        hlml.hlmlInit()
    with pytest.raises(hlml.HLMLError, match=r"invalid argument \(2\)"):
        hlml.hlmlDeviceGetHandleByIndex(8)
    hlml.hlmlShutdown()
    for call in (hlml.hlmlDeviceGetCount, hlml.hlmlShutdown, hlml.hlmlGetDriverVersion):
        with pytest.raises(hlml.HLMLError, match=r"uninitialized \(1\)"):
            call()
    hlml.hlmlInit()
