"""docs/doctor.md: a contract that is wrong is told as the page shows it."""

from __future__ import annotations

import re

from tests.core.command import beside, northbridge
from tests.core.conftest import Install, Site
from tests.docs.page import PAGES, shows

from northbridge.diagnostics.environment import SHOWN


def test_the_page_lists_the_variables_whose_values_are_told() -> None:
    text = PAGES["docs/doctor.md"].read_text()
    (section,) = re.findall(r"## What it does not tell\n(.*?)\n## ", text, flags=re.S)

    assert set(re.findall(r"`([A-Z_]{4,})`", section)) == SHOWN


def test_a_wrong_contract_is_told_as_the_page_shows(install: Install, without_lightning: Site) -> None:
    (shown,) = re.findall(r"```text\n(contracted: .*?)```", PAGES["docs/doctor.md"].read_text(), flags=re.S)
    site = beside(without_lightning, *install("contracted").folders)

    run = northbridge(site, "doctor", "contracted", COLUMNS="100")

    assert shows(run.stdout, shown), run.stdout
    assert run.returncode == 1
