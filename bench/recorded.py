"""A report of ``make bench``, read again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import pydantic

from bench.bounds import Unit
from bench.report import REPORT


class Recorded(pydantic.BaseModel):
    """One figure of a report."""

    what: str
    unit: Unit
    value: Annotated[float, pydantic.Field(gt=0)]
    first_quartile: float
    third_quartile: float
    bound: float | None
    verdict: str
    parts: Mapping[str, str]


class Machine(pydantic.BaseModel):
    """Where a report was written."""

    cpu: str
    cores: int


class Report(pydantic.BaseModel):
    """A report, as far as it is shown."""

    date: str
    machine: Machine
    versions: Mapping[str, str]
    figures: Mapping[str, Recorded]

    @property
    def surroundings(self) -> str:
        """When and where it was measured, in a line."""
        torch = self.versions.get("torch", "?")
        return f"{self.date[:10]}, torch {torch}, {self.machine.cores} cores of {self.machine.cpu}"


class ReportFileError(Exception):
    """There is no report that could be shown."""


def read(file: Path = REPORT) -> Report:
    """Return the report in ``file``. Raises :class:`ReportFileError`."""
    try:
        return Report.model_validate_json(file.read_text())
    except FileNotFoundError:
        raise ReportFileError(f"there is no {file}: measure first, by make bench") from None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "all of it"
        raise ReportFileError(f"{file} is no report of make bench: {where}: {first['msg']}; measure again") from None
