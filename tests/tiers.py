"""The tiers of the tests: which `make test-fast`, `make test` and `make test-all` run, by the folder of a test.

- ``fast``: starts no process and no compiler, which is checked wherever such a test runs;
- ``standard``: needs no process that trains, or is one of the few that show each chip training;
- ``full``: every other test, and those whose processes cost more than `make test` has in its ten minutes, such as a
  whole run of the doctor or of a level: `make test-all` alone runs them;
- ``sampled``: ``standard`` for twelve of these tests, ``full`` for the others. The commit draws them, one from each
  twelfth of them: a second run of a commit's tests has the same twelve, and in time each test is drawn.
"""

from __future__ import annotations

import multiprocessing.util
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

Drawn = TypeVar("Drawn")

TIERS = {"fast": "fast", "standard": "fast or standard", "full": ""}
"""The expression for pytest's ``-m`` that selects a tier."""

SAMPLE = 12

_ENTRIES = """\
tests/test_ standard
    full packaging.py
tests/core/test_ standard
    fast backend.py damaged_input.py settings.py public_names.py untrusted.py
    standard untrusted.py::test_no_other_console_is_made_in_the_core
    standard backend.py::test_what_crosses_is_found_anew_on_the_other_side
    standard public_names.py::test_a_star_import_brings_them_all
    standard public_names.py::test_it_imports_neither_torch_nor_pydantic_nor_lightning
    standard public_names.py::test_getting_a_backend_imports_neither_torch_nor_lightning
    standard public_names.py::test_errors_and_autoload_import_the_standard_library
    full damaged_input.py::test_changed_report_that_was_sealed_again
tests/core/cli/ standard
tests/conformance/ fast
    standard report/test_command.py report/test_suite_run.py runs/test_question.py
    standard test_run.py runs/test_processes.py test_pytest_plugin.py test_suite.py test_proving.py
    fast runner/test_supervisor.py::test_an_ending runner/test_supervisor.py::test_each_line
    full report/test_browser.py runner/test_supervisor.py test_third_party.py tests/plugin/
    full report/test_command.py::test_part_of_the_suite_is_told_test_by_test report/test_command.py::test_sigterm
    full test_run.py::test_hanging_ranks_are_ended_with_their_stacks
    full tests/device/test_one_device.py::test_a_machine_with_one_device_forbids_no_test_of_one
tests/core/contract/ fast
tests/core/diagnostics/ full
    fast test_diagnosis.py
    standard test_list.py
    full test_list.py::test_a_suite test_list.py::test_somebody test_list.py::test_software test_list.py::test_who
    standard test_training.py::test_the_simulated_chip_trains_on_one_card_and_on_two
tests/core/discovery/ standard
    fast test_hooks.py test_installed.py test_stand_ins.py
tests/core/flight_recorder/ fast
    full recording/test_recorder.py
tests/core/graphs/ standard
tests/core/host_collective/ standard
    fast test_collective.py
    full test_conformance.py
tests/core/launch/ fast
    full test_parent_watch.py test_process_group.py::test_a_ test_process_group.py::test_timer
tests/core/lightning/ standard
    fast accelerators/test_accelerator.py::test_devices_ plugins/test_containers.py plugins/test_load_and_save.py
    full test_clusters.py::test_a_slurm_job test_elastic.py test_faults.py
    full strategies/test_sharded.py::test_a_part strategies/test_sharded.py::test_rank_that_dies
    full strategies/test_mixed.py
    standard strategies/test_mixed.py::test_w strategies/test_mixed.py::test_ranks_have_the_weights_of_one_process[hpu
    full corrections/test_replacements.py::test_fabric_run corrections/test_replacements.py::test_a_command
    full corrections/test_replacements.py::test_the_
    full test_launchers.py::test_run_ends_as_its_ranks connector/test_registry.py
    full test_launchers.py::test_several_devices_fork_until
    full connector/test_choices.py::test_no_plugin_can_hurt_the_process
    full plugins/test_checkpoint_io.py::test_spawning_process_saves_after_its_ranks
    full plugins/test_float8.py::test_torchao plugins/test_float8_inference.py::test_a_model
tests/core/processes/ fast
    standard test_child.py test_python_start.py
tests/core/snapshots/ standard
    fast test_records.py
    full test_differences.py
tests/backends/cpu_sim/ standard
    fast build/test_cache.py build/test_recipe.py faults/test_plan.py test_settings.py
    full csrc/collective/test_failing_ranks.py test_conformance.py
    full faults/test_faults.py::test_a_rank_is faults/test_faults.py::test_collectives_meet
    full faults/test_faults.py::test_a_hung
    full build/test_extension.py test_chip.py csrc/operators/test_numerics.py::test_layouts
    standard test_chip.py::test_what_the_entry test_chip.py::test_gloo test_chip.py::test_torch_finds
    standard csrc/collective/test_failing_ranks.py::test_every csrc/collective/test_failing_ranks.py::test_one_of
    standard csrc/collective/test_failing_ranks.py::test_a_correct
tests/backends/hpu/ standard
    full test_runs.py test_conformance.py test_documented_examples.py test_lightning_habana.py
    full test_collective.py::test_the_first_rank_waits
tests/backends/sdaa/ standard
    full test_conformance.py test_lightning_teco.py
backends/npu/tests/ full
backends/xpu/tests/ fast
    full test_xpu_conformance.py test_xpu_simulated.py
    standard test_xpu_bridge.py::TestCards test_xpu_trainer.py::test_auto_takes_them
    standard test_xpu_trainer.py::TestWithoutIntel::test_auto_passes_it_over
tests/backends/simulated/ full
    standard test_runs.py::test_each_command test_runs.py::TestTwoNodes test_contract.py
    standard test_chip.py::TestExports
    standard test_runs.py::TestTheDoctor::test_contract_holds_and_one_and_two_cards_train[eager]
    standard test_runs.py::TestTheDoctor::test_contract_holds_and_one_and_two_cards_train[ren
tests/backends/together/ full
    fast test_difference.py
tests/bench/ fast
    full test_bench.py
tests/compat/ fast
    standard test_compat.py::test_a_command
tests/faults/ standard
    full test_other_rounding.py test_right_chips.py
    full test_wrong_backends.py::test_error_fails_its_own_test_alone
    full test_wrong_backends.py::test_it_is_caught_on_a_chip_that_rounds
    sampled test_wrong_backends.py::test_it_is_caught_and_its_parent_is_not
tests/docs/ standard
    fast test_pages.py
    standard test_pages.py::test_a_wrong_contract test_pages.py::test_every_claim
    full test_pages.py::test_a_difference
    full test_errors_page.py::test_the_message_shown_is_the_one_produced
    full test_samples.py::test_the_samples_of_a_page_do_what_it_says
    full test_samples.py::test_a_command_prints_what_is_shown
tests/examples/ full
    fast test_examples.py::test_an_example_imports_nothing_of_northbridge
tests/forks/ standard
tests/gpu/ standard
    fast test_run.py::test_report_decides
    full test_run.py::test_rehearsal
tests/matrix/ full
    fast test_matrix.py::test_pa
tests/ops/ fast
    full test_ops.py::test_the_tenth test_ops.py::test_recorded
    standard test_ops.py::test_every_layer test_ops.py::test_a_process_that_crashes
    fast test_ops.py::test_the_tenth_is_chosen
tests/real/ full
    fast test_real.py::test_the_page
tests/soak/ fast
    full test_soak.py::test_killed_rank
tests/tools/ standard
tests/zoo/ fast
    full test_zoo.py::test_a_sample test_zoo.py::test_packages test_zoo.py::test_a_llama
"""
"""A folder and its tier; below it the tests of other tiers, by how their ids go on behind the folder's name."""


def _read(entries: str) -> Iterator[tuple[str, str]]:
    folder = ""
    for line in entries.splitlines():
        first, *words = line.split()
        if line.startswith(" "):
            yield from ((folder + word, first) for word in words)
        else:
            folder = first
            yield folder, words[0]


TABLE = dict(_read(_ENTRIES))
"""The tier of tests by how their ids begin; the longest beginning decides."""

SAMPLED_BY = "sampled by"
"""The property of a test that was drawn; its value is the seed."""

LEFT = "left to cpu_sim's proof"
"""The property of a chip's proof; its value says which tests are not in it."""

_STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec")
_guarded: str | None = None
_left_out: Counter[str] = Counter()


def entry_of(test: str) -> str:
    """Return the entry of :data:`TABLE` for the ``test`` with this id."""
    found = max((entry for entry in TABLE if test.startswith(entry)), key=len, default=None)
    if found is None:
        raise pytest.UsageError(f"{test.partition('::')[0]} has no tier: add its folder to the table in tests/tiers.py")
    return found


def draw(tests: Sequence[Drawn], seed: str) -> list[Drawn]:
    """Return the sample of ``tests``: of :data:`SAMPLE` equal parts, one of each."""
    number = min(SAMPLE, len(tests))
    ends = [part * len(tests) // number for part in range(number + 1)] if tests else []
    choose = random.Random(seed).randrange
    return [tests[choose(*ends[part : part + 2])] for part in range(number)]


def read_seed() -> str:
    """Return what the sample is drawn by: the commit."""
    git = shutil.which("git") or "false"
    commit = [git, "-C", str(Path(__file__).parent), "rev-parse", "--short=7", "HEAD"]
    read = subprocess.run(commit, check=False, capture_output=True, text=True)
    return read.stdout.strip() or "no commit"  # an unpacked archive


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier-report", action="store_true", help="run nothing: list the tests that -m leaves out")
    parser.addoption("--sample-seed", help="draw the sample by this, and not by the commit")


def pytest_configure(config: pytest.Config) -> None:
    for tier in TIERS:
        config.addinivalue_line("markers", f"{tier}: see tests/tiers.py")
    sys.addaudithook(_forbid_processes)


@pytest.hookimpl(tryfirst=True)  # before pytest selects by the markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tiers = {item: TABLE[entry_of(item.nodeid)] for item in items}
    sampled = [item for item in items if tiers[item] == "sampled"]
    seed = config.option.sample_seed or (read_seed() if sampled else "")
    tiers |= dict.fromkeys(sampled, "full")
    for item in draw(sampled, seed):
        tiers[item] = "standard"
        item.user_properties.append((SAMPLED_BY, seed))
    for item, tier in tiers.items():
        item.add_marker(tier)


def pytest_deselected(items: list[pytest.Item]) -> None:
    _left_out.update(item.nodeid.partition("::")[0] for item in items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Print the report, where it is asked for, in the place of running tests."""
    if not session.config.option.tier_report:
        return None
    print(f"\n{sum(_left_out.values())} tests are left out, {len(session.items)} would run")
    for file, number in sorted(_left_out.items()):
        print(f"{number:6} {file}")
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let a fast test, and what is set up for it, start no process, nor find a chip that has been compiled."""
    global _guarded
    if item.get_closest_marker("fast") is None:
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", os.devnull)
        # Of this one Python tells no audit hook.
        patch.setattr(multiprocessing.util, "spawnv_passfds", lambda *_: _forbid_processes(_STARTS[0], ()))
        _guarded = item.nodeid
        try:
            return (yield)
        finally:
            _guarded = None


def _forbid_processes(event: str, _: tuple[object, ...]) -> None:
    if _guarded is not None and event in _STARTS:
        # What this raises is not an Exception, which the code under test might handle.
        pytest.fail(f"{_guarded} is a fast test by tests/tiers.py, and starts a process ({event})")
