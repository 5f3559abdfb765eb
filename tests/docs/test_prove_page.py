"""docs/prove-your-backend.md: its levels, verdicts and files are those of the suite."""

from __future__ import annotations

import re
from pathlib import Path

from tests.core.conftest import TEMPLATE
from tests.docs.page import PAGES, ROOT, samples

from northbridge.capabilities import LEVEL_CLAIMS, Capabilities
from northbridge_conformance.levels import LEVELS
from northbridge_conformance.runner.supervisor import plan
from northbridge_conformance.verdict import Verdict

PAGE = "docs/prove-your-backend.md"


def rows(first: str) -> dict[str, str]:
    """Return the rows of the page's tables whose first cell fits ``first``: the rest of the line by that cell."""
    return dict(re.findall(rf"^\| ({first}) \|(.*)\|$", PAGES[PAGE].read_text(), flags=re.M))


def test_every_level_stands_there_with_the_claims_that_it_takes() -> None:
    found = {level: tuple(re.findall(r"`(\w+)`", rest)) for level, rest in rows("C\\d").items()}

    assert found == dict(LEVEL_CLAIMS)


def test_every_claim_stands_there_with_what_tests_it(tmp_path: Path) -> None:
    shown: dict[str, set[str]] = {claim: set() for claim in Capabilities().claims()}
    for test in plan(tmp_path, "cpu_sim", tuple(LEVELS)).values():
        for claim in test.claims:
            shown[claim].add(test.id.rpartition("/")[0])

    found = {}
    for claim, cell in rows("`[a-z_0-9]+`").items():
        levels = dict(re.findall(r"(C\d): ([\w, ]+\w)", cell))
        found[claim.strip("`")] = {
            f"{level}/{suite}" for level, suites in levels.items() for suite in suites.split(", ")
        }
    assert {claim: suites for claim, suites in found.items() if claim in shown} == shown


def test_it_says_how_many_tests_c3_takes() -> None:
    assert f"at least {LEVELS['C3'].least_cases} tests" in rows("C3")["C3"]


def test_every_verdict_stands_there_with_what_to_do() -> None:
    assert set(rows("[A-Z]+(?: [A-Z]+)?")) == {verdict.value for verdict in Verdict}


def test_every_kind_of_failure_names_tests_that_there_are() -> None:
    named = [(level, suite) for cell in rows("`C.+?`") for level, suite in re.findall(r"(C\d)/(\w+)/", cell)]

    assert len(named) >= 6
    there = {level.name: {each.__name__.removesuffix("Tests") for each in level.classes} for level in LEVELS.values()}
    assert [(level, suite) for level, suite in named if suite not in there[level]] == []


def test_the_four_classes_are_those_of_a_distribution_that_works() -> None:
    (adopted,) = samples(PAGE, "py")
    template = (TEMPLATE / "tests" / "test_conformance.py.jinja").read_text()

    assert adopted.code == template.replace("{{ name }}", "kelvin")


def test_the_ci_file_that_it_points_to_is_there() -> None:
    (named,) = re.findall(r"`(examples/\S+\.yml)`", PAGES[PAGE].read_text())

    assert Path(ROOT / named).is_file()
