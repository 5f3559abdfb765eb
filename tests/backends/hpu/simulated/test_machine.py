"""The simulated server: its settings, the acquisition of its cards by several processes, and its record."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.simulation.processes import Run, Start

import northbridge
from northbridge_cpu_sim import Server
from northbridge_hpu.simulated.machine import HPUSimSettings


def read(**fields: str) -> HPUSimSettings:
    return HPUSimSettings.read({HPUSimSettings.variable(name): text for name, text in fields.items()})


def test_default_is_a_second_generation_card() -> None:
    settings = read()
    assert (settings.generation, settings.release) == ("2", "1.22")
    assert settings.folder == read().folder


def test_another_folder_is_another_server(tmp_path: Path) -> None:
    assert read(server=str(tmp_path)).folder == tmp_path


@pytest.mark.parametrize(
    ("field", "text", "allowed"),
    [
        ("generation", "4", "1, 2 or 3"),
        ("release", "1.20", "a release of the vendor's software"),
        ("modules", "0,0,1", "a permutation such as 1,0,3,2"),
        ("modules", "a,b", "a permutation such as 1,0,3,2"),
        ("server", "here", "the absolute path of a folder"),
        ("server", __file__, "the absolute path of a folder"),
        ("server", f"{__file__}/below", "the absolute path of a folder"),
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
TAKE_AND_KEEP = TAKE + "input()\n"


def say(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.shows("module ids are not indices")
def test_the_named_module_is_taken_whatever_its_index(start: Start, server: Server) -> None:
    with start(TAKE_AND_KEEP, HLS_MODULE_ID="1", NORTHBRIDGE_HPU_SIM_MODULES="3,2,1,0,7,6,5,4") as process:
        assert say(process) == "taken\n"
        assert [card for card in range(8) if server.holder(card) == process.pid] == [2]
        process.communicate("\n")


def test_without_a_name_the_first_free_card_is_taken(start: Start, server: Server) -> None:
    with start(TAKE_AND_KEEP) as first, start(TAKE_AND_KEEP) as second:
        assert say(first) == say(second) == "taken\n"
        assert {server.holder(0), server.holder(1)} == {first.pid, second.pid}
        first.communicate("\n")
        second.communicate("\n")


@pytest.mark.shows("a process holds one card and calls it 0")
def test_a_second_process_cannot_have_the_card(start: Start, run: Run) -> None:
    only = {"HLS_MODULE_ID": "3", "HABANA_VISIBLE_MODULES": "3"}
    with start(TAKE_AND_KEEP, **only) as holder:
        assert say(holder) == "taken\n"
        said = run(TAKE + TAKE, **only)
        assert said == 2 * "refused: synStatus=20 [Device already acquired] Device acquire failed.\n"
        holder.communicate("\n")


def test_a_card_that_was_refused_can_be_had_later(start: Start) -> None:
    only = {"HLS_MODULE_ID": "3", "HABANA_VISIBLE_MODULES": "3"}
    with start(TAKE_AND_KEEP, **only) as holder:
        assert say(holder) == "taken\n"
        with start(TAKE_AND_KEEP + TAKE, **only) as later:
            assert say(later).startswith("refused:")
            holder.communicate("\n")
            assert later.communicate("\n")[0] == "taken\n"


@pytest.mark.shows("a card that is taken is exchanged for a free one")
def test_another_card_is_acquired_with_a_warning(start: Start, run: Run) -> None:
    with start(TAKE_AND_KEEP, HLS_MODULE_ID="3") as holder:
        assert say(holder) == "taken\n"
        said = run(TAKE, HLS_MODULE_ID="3")
        assert "UserWarning: module 3 cannot be acquired" in said
        assert said.endswith("taken\n")
        holder.communicate("\n")


def test_no_other_card_is_taken_where_there_are_fewer_than_ranks(start: Start, run: Run) -> None:
    with start(TAKE_AND_KEEP, HLS_MODULE_ID="3") as holder:
        assert say(holder) == "taken\n"
        assert run(TAKE, HLS_MODULE_ID="3", WORLD_SIZE="16").startswith("refused: synStatus=20")
        holder.communicate("\n")


def test_a_module_that_is_not_there_cannot_be_taken(run: Run) -> None:
    said = run(TAKE, HLS_MODULE_ID="8", HABANA_VISIBLE_MODULES="8")
    assert said == "refused: synStatus=26 [Generic failure] Device acquire failed.\n"


def test_a_killed_process_gives_its_card_back(start: Start, run: Run) -> None:
    only = {"HLS_MODULE_ID": "0", "HABANA_VISIBLE_MODULES": "0"}
    with start(TAKE_AND_KEEP, **only) as holder:
        assert say(holder) == "taken\n"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert run(TAKE, **only) == "taken\n"


def test_no_card_is_left_for_a_ninth_process(start: Start, run: Run, server: Server, tmp_path: Path) -> None:
    for card in range(8):
        server.acquire(card)
    assert run(TAKE).startswith("refused: synStatus=20")


@pytest.mark.parametrize(
    "question",
    [
        "torch.hpu.is_available()",
        "torch.hpu.device_count()",
        "torch.hpu.is_bf16_supported()",
        "torch.hpu.is_initialized()",
        "torch.hpu.set_device(5)",
        "torch.hpu.manual_seed_all(1)",
        "torch.manual_seed(1)",
        "torch.hpu.get_rng_state(0)",
        "__import__('habana_frameworks.torch.utils.experimental').torch.utils.experimental._get_device_type()",
    ],
)
def test_what_takes_no_card(run: Run, question: str) -> None:
    assert run(f"{question}\nprint(torch.hpu.is_initialized())") == "False\n"


@pytest.mark.parametrize(
    "question",
    [
        "torch.hpu.init()",
        "torch.hpu.current_device()",
        "torch.hpu.synchronize()",
        "torch.hpu.get_device_name()",
        "torch.hpu.get_device_capability()",
        "torch.hpu.get_device_properties()",
        "torch.hpu.memory_stats()",
        "torch.hpu.reset_peak_memory_stats()",
        "torch.hpu.get_rng_state()",
        "torch.ones(1).to('hpu')",
    ],
)
def test_what_takes_the_card(run: Run, question: str) -> None:
    assert run(f"{question}\nprint(torch.hpu.is_initialized())") == "True\n"


def test_a_card_that_is_held_stays_the_one(start: Start, server: Server) -> None:
    with start(
        "torch.hpu.current_device(); import os; del os.environ['HLS_MODULE_ID']; torch.hpu.set_device(6)"
        + TAKE_AND_KEEP,
        HLS_MODULE_ID="5",
    ) as process:
        assert say(process) == "taken\n"
        assert [card for card in range(8) if server.holder(card) == process.pid] == [0]
        process.communicate("\n")


@pytest.fixture
def recorded(run: Run, tmp_path: Path) -> Callable[[str], list[str]]:
    """Run a program and return the lines of its record."""

    def recorded(program: str) -> list[str]:
        run(program, NORTHBRIDGE_CPU_SIM_RECORD=str(tmp_path / "record"))
        return (tmp_path / "record" / "touched").read_text().splitlines()

    return recorded


def test_reads_and_calls_are_written_down_under_torchs_name(recorded: Callable[[str], list[str]]) -> None:
    lines = recorded("count = torch.hpu.device_count\ncount()\nhtcore.hpu.current_device()\nhtcore.mark_step")
    assert {"read torch.hpu.device_count", "call torch.hpu.device_count", "call torch.hpu.current_device"} <= set(lines)
    assert "read habana_frameworks.torch.core.mark_step" in lines
    assert "call habana_frameworks.torch.core.mark_step" not in lines


def test_what_is_absent_is_written_down_too(recorded: Callable[[str], list[str]]) -> None:
    assert "read torch.hpu.no_such_thing" in recorded("getattr(torch.hpu, 'no_such_thing', None)")


def test_variables_and_replaced_functions_are_written_down(recorded: Callable[[str], list[str]]) -> None:
    lines = recorded("torch.manual_seed(1)")
    assert {"read MASTER_PORT", "write MASTER_PORT", "call torch.manual_seed"} <= set(lines)


def test_what_the_simulation_does_itself_is_not_written_down(recorded: Callable[[str], list[str]]) -> None:
    lines = recorded("torch.hpu.current_device()")
    assert [line for line in lines if line.startswith(("read torch.hpu.", "call torch.hpu."))] == [
        "read torch.hpu.current_device",
        "call torch.hpu.current_device",
    ]


def test_a_line_is_written_once_a_process(recorded: Callable[[str], list[str]]) -> None:
    lines = recorded("for _ in range(3): torch.hpu.device_count()")
    assert len(lines) == len(set(lines))


def test_nothing_is_watched_without_the_variable(run: Run) -> None:
    program = "print(type(torch.hpu).__name__, hasattr(torch.hpu.device_count, '__wrapped__'))"
    assert run(program, NORTHBRIDGE_CPU_SIM_RECORD="") == "module False\n"
