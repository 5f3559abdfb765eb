"""A report of ``make bench``, read again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import pydantic

from bench.figure import Measurement
from bench.report import REPORT, Surroundings
from bench.row import Unit


class Recorded(pydantic.BaseModel):
    """One figure of a report."""

    what: str
    unit: Unit
    value: Annotated[float, pydantic.Field(gt=0)]
    lower: float
    upper: float
    """The 95 % interval of ``value``."""

    first_quartile: float
    third_quartile: float
    goal: float | None
    verdict: str
    missed: str
    """Why the goal is not met, where that is known."""

    parts: Mapping[str, str]
    values: Annotated[list[float], pydantic.Field(min_length=1)]
    """One a round."""

    sides: list[list[float]]


class Machine(pydantic.BaseModel):
    """Where a report was written."""

    cpu: str
    cores: int


class Report(pydantic.BaseModel):
    """A report, as far as it is shown."""

    date: str
    commit: str
    quick: bool
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
        raise ReportFileError(f"{file} is not a report of make bench: {where}: {first['msg']}; measure again") from None


def resume(surroundings: Surroundings, *, quick: bool, file: Path = REPORT) -> dict[str, Measurement]:
    """Return what ``file`` has of these surroundings, by the name of the figure.

    Called where a run that was stopped goes on. Raises :class:`ReportFileError` where it was measured with anything
    else: a page of both would be of neither.
    """
    report = read(file)
    then = {"commit": report.commit, "cpu": report.machine.cpu, "cores": report.machine.cores, "quick": report.quick}
    now = {"commit": surroundings.commit, "cpu": surroundings.cpu, "cores": surroundings.cores, "quick": quick}
    then, now = {**then, **report.versions}, {**now, **surroundings.versions}
    other = [f"{name} was {then.get(name)} and is {now[name]}" for name in now if then.get(name) != now[name]]
    if other:
        raise ReportFileError(f"{file} cannot be gone on with: {'; '.join(other)}; measure all of it, by make bench")
    return {name: Measurement(each.values, each.sides) for name, each in report.figures.items()}
