"""What pages say of chips, contracts, hangs and proofs is what the code says."""

from __future__ import annotations

import os
import re
from dataclasses import fields
from importlib.metadata import entry_points
from pathlib import Path

from tests.core.command import northbridge
from tests.core.conftest import TEMPLATE, Install, Site, install as install, without_lightning as without_lightning
from tests.core.flight_recorder.files import call_record, end_record, group_record, place_record, rank_record, write
from tests.docs.page import PAGES, ROOT, samples, shows
from tests.scripts import run_script
from typer.testing import CliRunner

import northbridge_sdaa
from northbridge.capabilities import FACTS, LEVEL_CLAIMS, Capabilities
from northbridge.cli.app import app
from northbridge.diagnostics.environment import SHOWN
from northbridge.processes.endings import this_machine
from northbridge_conformance.levels import LEVELS
from northbridge_conformance.runner.supervisor import plan
from northbridge_conformance.verdict import Verdict

# --- README.md and docs/compat.md: the tables of chips

URL = re.compile(r"https://\S+")


def table() -> dict[str, dict[str, str]]:
    """Return the table of chips: for each chip the cells of its column, by the row's first cell."""
    lines = PAGES["docs/compat.md"].read_text().partition("## Chips")[2].splitlines()
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[: lines.index("", 7)] if "|" in line
    ]
    chips = [re.sub(r"\[`(\w+)`\].*", r"\1", cell) for cell in header]
    return {chip: {row[0]: row[at] for row in rows} for at, chip in enumerate(chips) if at}


def without_source(cells: dict[str, str]) -> list[str]:
    """Return the rows in which the column says ``unknown``, by itself or by its row, and names no URL."""
    return [row for row, cell in cells.items() if "unknown" in f"{row} {cell}".lower() and not URL.search(cell)]


def test_the_table_has_a_column_for_each_chip() -> None:
    there = {entry.name for entry in entry_points(group="northbridge.distributions")}
    rows = re.findall(r"^\| \[.+?\]\(docs/\S+\.md\), `(\w+)` \|", PAGES["README.md"].read_text(), flags=re.M)

    assert set(table()) == set(rows) == there


def test_an_unknown_of_hpu_names_its_source() -> None:
    assert without_source(table()["hpu"]) == []
    assert without_source({"graphs": "Unknown", "unknown": "float8"}) == ["graphs", "unknown"]


def test_readmes_numbers_are_those_of_the_measurement() -> None:
    shown = re.findall(r"\*\*([\d.]+) (?:ms|times)\*\*", PAGES["README.md"].read_text())
    measured = re.findall(r"^\| .+? \| ([\d.]+) ", PAGES["docs/measured.md"].read_text(), flags=re.M)

    assert len(shown) == 3
    assert [each for each in shown if each not in [f"{float(one):g}" for one in measured]] == []


def test_sdaa_denies_what_it_does_not_have() -> None:
    claims = northbridge_sdaa.northbridge_backend().capabilities.claims()

    assert all(claims[name].denied for name in ("float8", "graphs", "fused_optimizers", "data_loaders"))


# --- docs/doctor.md


def test_the_page_lists_the_variables_whose_values_are_told() -> None:
    text = PAGES["docs/doctor.md"].read_text()
    (section,) = re.findall(r"## What it does not tell\n(.*?)\n## ", text, flags=re.S)

    assert set(re.findall(r"`([A-Z_]{4,})`", section)) == SHOWN


def test_a_wrong_contract_is_told_as_the_page_shows(install: Install, without_lightning: Site) -> None:
    (shown,) = re.findall(r"```text\n(contracted: .*?)```", PAGES["docs/doctor.md"].read_text(), flags=re.S)
    site = without_lightning.beside(*install("contracted").folders)

    run = northbridge(site, "doctor", "contracted", COLUMNS="100")

    assert shows(run.stdout, shown), run.stdout
    assert run.returncode == 1


# --- docs/hang.md


def test_a_hang_is_told_as_the_page_shows(tmp_path: Path) -> None:
    page = PAGES["docs/hang.md"].read_text()
    shown, _ = re.findall(r"```text\n(4 of 4 ranks .*?)```", page, flags=re.S)
    group = group_record(ranks=[0, 1, 2, 3])
    before = place_record(("__main__", "train.py", 40, "training_step"))
    gathers = [
        each
        for number in range(1, 17)
        for each in (
            call_record(number, operation="all_gather", tensors=[["float32", [1]]], elements=1),
            end_record(number),
        )
    ]
    place = {**place_record(("__main__", "train.py", 42, "training_step")), "place": 1}
    reduce = call_record(17, tensors=[["float32", [1024]]], elements=1024, place=1)
    for rank in range(4):
        # A process that began at another time than the one that has its number now is gone.
        about = rank_record(rank, world_size=4, machine=this_machine(), process=1, process_ticks=1)
        last = [] if rank == 2 else [place, reduce]
        write(tmp_path, about if rank == 2 else rank_record(rank, world_size=4), group, before, *gathers, *last)

    run = CliRunner().invoke(app, ["hang", str(tmp_path)], env={"COLUMNS": "100"})

    assert shows(run.stdout, shown), run.stdout
    assert run.exit_code == 1
    assert (ROOT / "docs" / "scripts" / "stuck.py").read_text() in page


# --- docs/first-difference.md


def test_a_difference_is_told_as_the_page_shows(tmp_path: Path) -> None:
    page = "docs/first-difference.md"
    (shown,) = re.findall(r"```text\n(step 0, .*?)```", PAGES[page].read_text(), flags=re.S)
    diff = 'sys.argv = ["northbridge", "diff", "cpu", "chip"]'
    command = f"import sys\nfrom northbridge.cli.app import main\n{diff}\nmain()\n"
    script = tmp_path / "train.py"
    script.write_text("".join(each.code for each in samples(page, "python")) + command)

    ran = run_script(script, folder=tmp_path, environ={**os.environ, "COLUMNS": "100"})

    assert shows(ran.said, shown), ran.said
    assert ran.status == 1


# --- docs/backend-interfaces.md


def test_the_page_says_of_each_claim_what_its_denial_does() -> None:
    page = PAGES["docs/backend-interfaces.md"].read_text()
    table = page.partition("| claims | if you say no |\n")[2].partition("\n\n")[0]
    told = [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split(" | ")[0])]

    assert {name: told.count(name) for name in told} == {
        each.name: 2 if each.name == "float64" else 1 for each in fields(Capabilities) if each.name not in FACTS
    }


# --- docs/prove-your-backend.md

PAGE = "docs/prove-your-backend.md"


def rows(first: str, page: str = PAGE) -> dict[str, str]:
    """Return the rows of the page's tables whose first cell fits ``first``: the rest of the line by that cell."""
    return dict(re.findall(rf"^\| ({first}) \|(.*)\|$", (ROOT / page).read_text(), flags=re.M))


def test_every_level_stands_there_with_the_claims_that_it_takes() -> None:
    found = {level: tuple(re.findall(r"`(\w+)`", rest)) for level, rest in rows("C\\d").items()}

    assert found == dict(LEVEL_CLAIMS)
    assert f"at least {LEVELS['C3'].least_cases} tests" in rows("C3")["C3"]
    assert set(rows("[A-Z]+(?: [A-Z]+)?")) == {verdict.value for verdict in Verdict}


def test_every_claim_stands_there_with_what_tests_it(tmp_path: Path) -> None:
    shown: dict[str, set[str]] = {claim: set() for claim in Capabilities().claims()}
    for test in plan(tmp_path, "cpu_sim", tuple(LEVELS)).values():
        for claim in test.claims:
            shown[claim].add(test.id.rpartition("/")[0])

    found = {}
    for claim, cell in rows("`[a-z_0-9]+`", "conformance/claims.md").items():
        levels = dict(re.findall(r"(C\d): ([\w, ]+\w)", cell))
        found[claim.strip("`")] = {
            f"{level}/{suite}" for level, suites in levels.items() for suite in suites.split(", ")
        }
    assert {claim: suites for claim, suites in found.items() if claim in shown} == shown


def test_every_kind_of_failure_names_tests_that_there_are() -> None:
    named = [(level, suite) for cell in rows("`C.+?`") for level, suite in re.findall(r"(C\d)/(\w+)/", cell)]

    assert len(named) >= 6
    there = {level.name: {each.__name__.removesuffix("Tests") for each in level.classes} for level in LEVELS.values()}
    assert [(level, suite) for level, suite in named if suite not in there[level]] == []


def test_the_four_classes_are_those_of_a_distribution_that_works() -> None:
    (adopted,) = samples(PAGE, "py")
    template = (TEMPLATE / "tests" / "test_conformance.py.jinja").read_text()

    assert adopted.code == template.replace("{{ name }}", "kelvin")
    (named,) = re.findall(r"`(examples/\S+\.yml)`", PAGES[PAGE].read_text())
    assert (ROOT / named).is_file()
