"""``report.json``: the result of a run of the suite, for people and programs on other days and machines."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import Self

from northbridge.capabilities import LEVEL_CLAIMS, Claim
from northbridge.errors import ReportError
from northbridge.untrusted.files import read_file
from northbridge_conformance.verdict import Ending, Figure, Verdict

SCHEMA = 1
"""The version of the format; a reader rejects other versions."""


CHANGED = "its digest does not match its content: it was changed after the suite wrote it"
"""The fault of a report whose digest does not match; nothing else in it counts then."""

NOT_ASKED = "it was not asked for"
"""The evidence of a test that was left out because only part of the suite was requested."""

INTERRUPTED = "Ctrl-C or SIGTERM ended the suite before this test ended"
"""The evidence of a test that an interrupted run did not reach, or did not finish."""


def _reject_unknown_level(name: str) -> str:
    if name not in LEVEL_CLAIMS:
        raise ValueError(f"unknown level {name[:20]!r}")
    return name


Finding = Literal["proved", "refused", "unknown", "false", "hidden", "not tested"]
LevelName = Annotated[str, AfterValidator(_reject_unknown_level)]
Name = Annotated[str, Field(max_length=2000)]
Number = Annotated[int, Field(ge=0, lt=1 << 63)]
Seconds = Annotated[float, Field(ge=0, lt=1e12)]


class _Facts(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class SuiteFacts(_Facts):
    """The suite that ran, and how much of it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")  # earlier reports have one more, empty

    northbridge: Name
    """The version of Northbridge that the suite belongs to."""

    sources: Name
    """A digest of the suite's own files."""

    asked: LevelName
    """The highest level that was requested, such as ``"C3"``."""

    expected: tuple[Name, ...]
    """The id of every test up to that level; a complete report has a result for each."""

    options_off: tuple[str, ...] = ()
    """The strict options that a simulated chip ran without."""


class BackendFacts(_Facts):
    """The backend that the report is about."""

    name: Name
    distribution: Name
    version: Name
    api: Number = 0
    device: str = ""
    """The torch device type."""

    collective: str = ""
    """The communication library's name; empty if the chip has none."""

    simulated: bool = False
    devices: Number = 0
    """The number of devices on this machine."""

    label: str = ""
    """The product name of the first device."""

    problem: str = ""
    """The reason why the backend could not be loaded or described here; its facts and claims are then incomplete."""


class MachineFacts(_Facts):
    """The machine on which the suite ran."""

    system: str
    processor: str
    cores: Number
    memory: Number
    """The size of the host memory in bytes."""

    environment: dict[str, str]
    """The variables of Northbridge, torch and the vendor that affect a run; mostly without their values."""

    described: dict[str, str] = Field(default_factory=dict)
    """The backend's short facts about the machine, such as the driver's version: ``Bridge.describe_machine()``."""


class ClaimResult(_Facts):
    """A claim, and the tests' finding about it."""

    answer: Literal["yes", "no", "unknown"]
    reason: str
    finding: Finding
    """``false``: claimed, and fails; or denied, and does not refuse. ``hidden``: denied, and works."""

    tests: Number
    """The number of tests that show it."""

    @model_validator(mode="after")
    def _is_a_claim(self) -> Self:
        Claim(self.answer, self.reason)  # it refuses a denial without a reason
        return self


class TestResult(_Facts):
    """The result of one test."""

    __test__ = False  # pytest must not collect it

    id: Name
    """The id, such as ``C1/Device/test_indexing[…]``."""

    level: LevelName
    topic: str
    """The first line of its class's docstring."""

    title: str
    """The behaviour that it shows, in words."""

    verdict: Verdict
    ending: Ending
    claims: tuple[Name, ...]
    seconds: Seconds
    evidence: str
    """The reason why it failed, was refused or could not run; for a hang, the stack of each rank."""

    advice: str
    """The place where the vendor should look; empty if the test needs no attention."""

    figures: tuple[Figure, ...] = ()
    """The measured distances, with the bound and the gate of each."""


class LevelResult(_Facts):
    """The result for one level: granted, or the reasons why not."""

    name: LevelName
    title: str
    granted: bool
    simulated: bool
    """True if the device is simulated, and so is the level."""

    cases: Number
    """The number of its tests that ran."""

    withheld: tuple[str, ...]
    """Every reason why it is not granted."""

    @property
    def label(self) -> str:
        """Display name: ``"C3 (simulated)"``."""
        return f"{self.name} (simulated)" if self.simulated else self.name


class Report(_Facts):
    """A complete conformance report."""

    schema_version: Literal[1] = 1
    suite: SuiteFacts
    backend: BackendFacts
    machine: MachineFacts
    versions: dict[str, str]
    """The versions of Python, torch, each namespace of Lightning, and the vendor's distributions."""

    began: str
    """The start time in ISO 8601, UTC."""

    seconds: Seconds
    claims: dict[Name, ClaimResult]
    levels: tuple[LevelResult, ...]
    tests: tuple[TestResult, ...]
    digest: str = Field(default="")
    """A digest of the rest, which reveals changes by accident or by hand."""

    @property
    def level(self) -> LevelResult | None:
        """The highest level that is granted."""
        granted = [level for level in self.levels if level.granted]
        return granted[-1] if granted else None

    @property
    def is_changed(self) -> bool:
        """True if the digest does not match the rest: the report was changed after the suite wrote it."""
        return self.digest != self.compute_digest()

    def sealed(self) -> Report:
        """Return this report with its digest."""
        return self.model_copy(update={"digest": self.compute_digest()})

    def compute_digest(self) -> str:
        """Return the digest of the report without its digest and without facts that have their default value."""
        told = self.model_copy(update={"digest": ""}).model_dump_json(exclude_defaults=True)
        return hashlib.sha256(told.encode()).hexdigest()

    def to_json(self) -> str:
        """Return the report as the text of a file."""
        return self.model_dump_json(indent=1) + "\n"

    def write(self, path: Path) -> None:
        """Write the report as JSON."""
        path.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Report:
        """Read a report that :meth:`write` wrote; raises :class:`ReportError` if the file is not a report."""
        try:
            text = read_file(path)
        except OSError as error:
            raise ReportError(f"{path} is not a conformance report: {error}") from None
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise ReportError(
                f"{path} is not a conformance report of schema {SCHEMA}: in {where}: {first['msg']}. Fix:"
                " run the suite again"
            ) from None
