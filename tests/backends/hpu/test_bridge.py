"""Loading of the vendor's software: the effects of its import, and the card of a rank."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.backends.simulation.processes import Run

import northbridge
from northbridge_hpu.bridge import HPUBridge

LOAD = "import northbridge\nbackend = northbridge.load('hpu')\nimport os, torch\n"
NEVER_SET = ("MASTER_ADDR", "MASTER_PORT", "HLS_MODULE_ID", "ID")
SCRIPTS = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
TELL = f"import json, os\nprint(json.dumps({{name: os.environ.get(name) for name in {NEVER_SET}}}))\n"
RANK = "backend.bridge.prepare_rank(index={index}, local_rank=0, world_size={world_size})\n"
ASK = "print(os.environ['HLS_MODULE_ID'], os.environ['HABANA_VISIBLE_MODULES'])"
REFUSED = """
try:
    backend.bridge.prepare_rank(index={index}, local_rank=0, world_size={world_size})
except northbridge.NorthbridgeError as error:
    print(type(error).__name__, error)
"""


def last(said: str) -> str:
    return said.strip().splitlines()[-1]


COMPILE = """
from northbridge.lightning.strategies.compilation import reject_compiler
for asked in ("hpu_backend", "inductor"):
    try:
        reject_compiler(backend, {"backend": asked})
        print(asked, "is taken")
    except northbridge.UnsupportedError as error:
        print(error)
"""


class TestCompilation:
    def test_eager_mode_has_the_vendor_backend_and_no_other(self, run: Run) -> None:
        taken, refused = run(COMPILE, first=LOAD, PT_HPU_LAZY_MODE="0").strip().splitlines()[-2:]

        assert taken == "hpu_backend is taken"
        assert refused == (
            "'hpu' cannot compile with 'inductor': it generates no code for Gaudi. Fix: write torch.compile(model,"
            " backend='hpu_backend')"
        )

    def test_lazy_mode_has_none(self, run: Run) -> None:
        refused, _ = run(COMPILE, first=LOAD, PT_HPU_LAZY_MODE="1").strip().splitlines()[-2:]

        assert refused == (
            "'hpu' cannot compile with 'hpu_backend': lazy mode makes graphs by itself, and PT_HPU_LAZY_MODE=0"
            " chooses eager mode. Fix: leave torch.compile out"
        )


class TestWhatTheImportLeavesBehind:
    def test_nothing_of_what_it_writes(self, run: Run) -> None:
        assert json.loads(last(run(TELL, first=LOAD))) == dict.fromkeys(NEVER_SET)

    def test_what_the_user_set_wins(self, run: Run) -> None:
        said = run(TELL, first=LOAD, MASTER_ADDR="10.0.0.7", MASTER_PORT="29517", HLS_MODULE_ID="3")

        assert json.loads(last(said)) == {
            "MASTER_ADDR": "10.0.0.7",
            "MASTER_PORT": "29517",
            "HLS_MODULE_ID": "3",
            "ID": None,
        }

    @pytest.mark.parametrize(
        ("named", "kept"),
        [
            (SCRIPTS, SCRIPTS),
            ({"MASTER_ADDR": "localhost"}, {}),
        ],
        ids=["an address and a port", "an address as the import's"],
    )
    def test_what_a_script_sets_after_torch_is_the_scripts(
        self, run: Run, named: dict[str, str], kept: dict[str, str]
    ) -> None:
        script = f"import os, torch\nassert os.environ['MASTER_PORT'] == '12345'\nos.environ.update({named})\n"

        assert json.loads(last(run(TELL, first=script + LOAD))) == {**dict.fromkeys(NEVER_SET), **kept}

    def test_a_port_alone_brings_no_address_of_the_imports(self, run: Run) -> None:
        assert json.loads(last(run(TELL, first=LOAD, MASTER_PORT="29500"))) == {
            **dict.fromkeys(NEVER_SET),
            "MASTER_PORT": "29500",
        }

    @pytest.mark.parametrize("rank", [{}, {"WORLD_SIZE": "4", "RANK": "2", "LOCAL_RANK": "2"}], ids=["alone", "rank"])
    def test_nothing_where_the_script_was_first(self, run: Run, rank: dict[str, str]) -> None:
        script_first = "import torch\nimport habana_frameworks.torch.core\n" + LOAD

        assert json.loads(last(run(TELL, first=script_first, **rank))) == dict.fromkeys(NEVER_SET)

    def test_what_the_user_set_wins_where_the_script_was_first(self, run: Run) -> None:
        script_first = "import torch\nimport habana_frameworks.torch.core\n" + LOAD

        users = {"MASTER_ADDR": "localhost", "MASTER_PORT": "12345"}  # told by what a process was started with
        said = run(TELL, first=script_first, **users)

        assert json.loads(last(said)) == {
            **dict.fromkeys(NEVER_SET),
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": "12345",
        }

    def test_no_card_is_taken(self, run: Run) -> None:
        assert last(run("print(torch.hpu.is_initialized(), torch.hpu.device_count())", first=LOAD)) == "False 8"


class TestTheCardOfARank:
    """Module ids are a permutation of the indices, 5,4,7,6,2,1,0,3 here; ``devices=`` counts in their own order."""

    @pytest.mark.parametrize("index", [0, 5])
    def test_it_is_chosen_by_its_place_among_the_module_ids(self, run: Run, index: int) -> None:
        said = run(RANK.format(index=index, world_size=8) + ASK, first=LOAD)

        assert last(said) == f"{index} 0,1,2,3,4,5,6,7"

    def test_what_was_chosen_here_is_not_the_users_choice(self, run: Run) -> None:
        twice = RANK.format(index=0, world_size=2) + RANK.format(index=1, world_size=2)

        # No documented set has six cards, and the user chose none.
        assert last(run(twice + ASK, first=LOAD, NORTHBRIDGE_CPU_SIM_DEVICES="6")) == "1 0,1,2,3,4,5"

    def test_visible_modules_are_counted_in_their_order(self, run: Run) -> None:
        said = run(RANK.format(index=1, world_size=2) + ASK, first=LOAD, HABANA_VISIBLE_MODULES="3,2")

        assert last(said) == "2 3,2"

    def test_what_the_user_chose_for_one_process_wins(self, run: Run) -> None:
        assert last(run(RANK.format(index=0, world_size=1) + ASK, first=LOAD, HLS_MODULE_ID="6")).startswith("6 ")

    def test_what_this_process_chose_before_does_not(self, run: Run) -> None:
        twice = RANK.format(index=1, world_size=1) + RANK.format(index=2, world_size=1)

        assert last(run(twice + ASK, first=LOAD)).startswith("2 ")

    def test_a_module_id_that_every_rank_inherits_is_refused(self, run: Run) -> None:
        said = run(REFUSED.format(index=1, world_size=2), first=LOAD, HLS_MODULE_ID="6")

        assert last(said) == (
            "SettingsError HLS_MODULE_ID=6 is set, but this rank's card is module 1 of 0,1,2,3,4,5,6,7. Fix: unset it"
        )

    @pytest.mark.parametrize(
        ("index", "environ"),
        [
            (0, {"HLS_MODULE_ID": "9"}),
            (0, {"HLS_MODULE_ID": "0", "HABANA_VISIBLE_MODULES": "2,3"}),
            (3, {"HLS_MODULE_ID": "0"}),
        ],
        ids=["it is not there", "it is not among those of the run", "another was asked for"],
    )
    def test_one_processs_wrong_module_id_is_refused_too(self, run: Run, index: int, environ: dict[str, str]) -> None:
        said = last(run(REFUSED.format(index=index, world_size=1), first=LOAD, **environ))

        assert said.startswith(
            f"SettingsError HLS_MODULE_ID={environ['HLS_MODULE_ID']} is set, but this rank's card is"
        )

    def test_an_empty_list_of_modules_counts_as_none(self, run: Run) -> None:
        rank = {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}

        said = run(RANK.format(index=1, world_size=2) + ASK, first=LOAD, HABANA_VISIBLE_MODULES="", **rank)

        assert last(said) == "1 0,1,2,3,4,5,6,7"

    def test_fewer_visible_modules_than_ranks_are_refused(self, run: Run) -> None:
        said = run(REFUSED.format(index=2, world_size=4), first=LOAD, HABANA_VISIBLE_MODULES="0,1")

        assert last(said) == ("DevicesError no device 2 of 'hpu': HABANA_VISIBLE_MODULES='0,1'. Fix: name more there")

    def test_modules_that_do_not_reach_each_other_are_refused(self, run: Run) -> None:
        said = run(REFUSED.format(index=0, world_size=2), first=LOAD, HABANA_VISIBLE_MODULES="1,2")

        assert last(said).startswith("SettingsError HABANA_VISIBLE_MODULES='1,2' is not one of the vendor's sets")

    def test_a_module_that_is_not_there_is_refused(self, run: Run) -> None:
        said = run(REFUSED.format(index=0, world_size=1), first=LOAD, HABANA_VISIBLE_MODULES="9")

        assert last(said) == ("SettingsError HABANA_VISIBLE_MODULES='9' names 9; found 0, 1, 2, 3, 4, 5, 6, 7")


class TestTheEnvironment:
    @pytest.mark.parametrize("variable", ["PT_HPU_GPU_MIGRATION", "PT_HPU_EMULATE_DISTRIBUTED"])
    @pytest.mark.parametrize(("with_torch", "imported"), [("0", False), ("1", True)], ids=["in time", "late"])
    def test_deceiving_switch_is_refused(self, run: Run, variable: str, with_torch: str, imported: bool) -> None:
        attempt = """
import sys, northbridge
try:
    northbridge.load("hpu")
except northbridge.SettingsError as error:
    print(error.variable, "habana_frameworks.torch" in sys.modules)
"""

        said = last(run(attempt, first="#\n", PT_HPU_AUTOLOAD=with_torch, **{variable: "1"}))

        assert said == f"{variable} {imported}"

    def test_useless_container_variable_is_warned_about(self, run: Run) -> None:
        said = run("", first=LOAD, HABANA_VISIBLE_DEVICES="0,1")

        assert (
            "HABANA_VISIBLE_DEVICES=0,1 is read by the container runtime only: this process sees 8 cards."
            " Fix: set HABANA_VISIBLE_MODULES"
        ) in said

    def test_the_vendors_patches_of_modules_are_off_unless_asked_for(self, run: Run) -> None:
        ask = "print(os.environ['PT_HPU_WEIGHT_SHARING'])"

        assert last(run(ask, first=LOAD)) == "0"
        assert last(run(ask, first=LOAD, PT_HPU_WEIGHT_SHARING="1")) == "1"


@pytest.mark.parametrize(
    ("version", "package", "problem"),
    [
        ("1.24.1", "habana_frameworks", "its version is unlike 1.24.1.482"),
        ("1.24.1.482", "setup", "it brings no habana_frameworks"),
        ("0.0.0.0+5a56187", "habana_frameworks", "$"),  # the vendor's
    ],
)
def test_distribution_of_a_stranger(
    version: str, package: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "habana_torch_plugin.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: habana-torch-plugin\nVersion: {version}\n")
    (metadata / "RECORD").write_text(f"{package}/__init__.py,,\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(northbridge.SoftwareMissingError, match=problem) if problem != "$" else nullcontext():
        HPUBridge().describe_machine()


class TestMarkers:
    COUNT = """
from northbridge_hpu.simulated import markers
before = markers.placed
backend.bridge.after_backward(); backend.bridge.after_step(); backend.bridge.after_evaluation()
print(markers.placed - before)
"""

    @pytest.mark.parametrize(
        ("environ", "marks"),
        [
            ({"PT_HPU_LAZY_MODE": "1"}, 3),
            ({"PT_HPU_LAZY_MODE": "0"}, 0),
            ({"NORTHBRIDGE_HPU_SIM_RELEASE": "1.19"}, 3),
            ({"NORTHBRIDGE_HPU_SIM_RELEASE": "1.22"}, 0),
        ],
        ids=["lazy", "eager", "a release that is lazy by default", "a release that is eager by default"],
    )
    def test_a_step_is_marked_in_lazy_mode_alone(self, run: Run, environ: dict[str, str], marks: int) -> None:
        assert last(run(self.COUNT, first=LOAD, **environ)) == str(marks)
