"""The table of chips in README.md: what it calls unknown, and what the claims of the backends do."""

from __future__ import annotations

import re

from tests.docs.page import PAGES, ROOT

import northbridge_hpu
import northbridge_sdaa
from northbridge.capabilities import Claim

URL = re.compile(r"https://\S+")


def table() -> dict[str, dict[str, str]]:
    """Return the table of chips: for each chip the cells of its column, by the row's first cell."""
    lines = PAGES["README.md"].read_text().partition("## The chips")[2].splitlines()
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[: lines.index("", 7)] if "|" in line
    ]
    chips = [re.sub(r"\[`(\w+)`\].*", r"\1", cell) for cell in header]
    return {chip: {row[0]: row[at] for row in rows} for at, chip in enumerate(chips) if at}


def without_source(cells: dict[str, str]) -> list[str]:
    """Return the rows in which the column says ``unknown``, by itself or by its row, and names no URL."""
    return [row for row, cell in cells.items() if "unknown" in f"{row} {cell}".lower() and not URL.search(cell)]


def test_the_table_has_a_column_for_each_chip() -> None:
    assert set(table()) == {folder.name for folder in (ROOT / "backends").iterdir()}
    assert all({"works", "unknown"} <= set(cells) for cells in table().values())


def test_an_unknown_of_hpu_names_its_source() -> None:
    assert without_source(table()["hpu"]) == []
    assert without_source({"graphs": "Unknown", "unknown": "float8"}) == ["graphs", "unknown"]


def test_sdaa_denies_what_it_does_not_have() -> None:
    said = claims("sdaa")

    assert all(said[name].denied for name in ("float8", "graphs", "fused_optimizers", "data_loaders"))


def claims(chip: str) -> dict[str, Claim]:
    """Return the claims of a backend, as far as they need no card."""
    package = {"hpu": northbridge_hpu, "sdaa": northbridge_sdaa}[chip]
    found: dict[str, Claim] = package.northbridge_backend().capabilities.claims()
    return found
