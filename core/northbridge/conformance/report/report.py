"""``report.json``: what a run of the suite found out, for people and programs of other days and machines."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import Self

from northbridge.capabilities import LEVEL_CLAIMS, Claim
from northbridge.conformance.verdict import Ending, Verdict
from northbridge.errors import ReportError
from northbridge.untrusted.files import read_file

SCHEMA = 1
"""The version of the format; a reader refuses another."""


NOT_ASKED = "it was not asked for"
"""The evidence of a test that was left out, where a part of the suite was asked for."""


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
    """Which suite ran, and how much of it."""

    northbridge: Name
    """The version that brought it."""

    sources: Name
    """A digest of the suite's own files."""

    asked: LevelName
    """The level up to which it was asked to go, such as ``"C3"``."""

    expected: tuple[Name, ...]
    """The id of every test up to there; of a whole report each has a result."""

    mutation: str = ""
    """The fault that was made on purpose; such a report shows nothing about the backend."""

    options_off: tuple[str, ...] = ()
    """The strict options that a simulated chip ran without."""


class BackendFacts(_Facts):
    """Whom the report is about."""

    name: Name
    distribution: Name
    version: Name
    api: Number = 0
    device: str = ""
    """The torch device type."""

    collective: str = ""
    simulated: bool = False
    devices: Number = 0
    """How many devices this machine has."""

    label: str = ""
    """The product's name, of the first device."""

    problem: str = ""
    """Why the backend could not be loaded here, or not even be asked; what it is and claims is then not all known."""


class MachineFacts(_Facts):
    """Where it ran."""

    system: str
    processor: str
    cores: Number
    memory: Number
    """In bytes."""

    environment: dict[str, str]
    """The variables that bear on a run, of Northbridge, of torch's and of the vendor's; of most the name alone."""


class ClaimResult(_Facts):
    """A claim, and what the tests say of it."""

    answer: Literal["yes", "no", "unknown"]
    reason: str
    finding: Finding
    """``false``: claimed, and fails; or denied, and does not refuse. ``hidden``: denied, and works."""

    tests: Number
    """How many tests show it."""

    @model_validator(mode="after")
    def _is_a_claim(self) -> Self:
        Claim(self.answer, self.reason)  # which refuses a denial without a reason
        return self


class TestResult(_Facts):
    """One test."""

    __test__ = False  # nothing for pytest to collect

    id: Name
    """``C1/Device/test_indexing[…]``."""

    level: LevelName
    topic: str
    """Subject of its class, as a sentence."""

    title: str
    """Behaviour that it shows, in words."""

    verdict: Verdict
    ending: Ending
    claims: tuple[Name, ...]
    seconds: Seconds
    evidence: str
    """Why it failed, was refused or could not run; where it hung, the stack of each rank."""

    advice: str
    """Where the vendor should look; empty where all is well."""

    @property
    def class_name(self) -> str:
        """The class of the suite: ``"Device"``."""
        return self.id.partition("/")[2].partition("/")[0]

    @property
    def function(self) -> str:
        """The test's function: ``"test_indexing"``."""
        return self.id.partition("/")[2].partition("/")[2].partition("[")[0]

    @property
    def parameters(self) -> str:
        """Arguments of the function, in pytest's words; empty if there are none."""
        return self.id.partition("[")[2].removesuffix("]")


class LevelResult(_Facts):
    """Whether a level is granted, and why not."""

    name: LevelName
    title: str
    granted: bool
    simulated: bool
    """The device is simulated: so is the level."""

    cases: Number
    """How many of its tests ran."""

    withheld: tuple[str, ...]
    """Every reason why it is not granted."""

    @property
    def label(self) -> str:
        """Display name: ``"C3 (simulated)"``."""
        return f"{self.name} (simulated)" if self.simulated else self.name


class Report(_Facts):
    """All of it."""

    schema_version: Literal[1] = 1
    suite: SuiteFacts
    backend: BackendFacts
    machine: MachineFacts
    versions: dict[str, str]
    """Of Python, torch, each namespace of Lightning, and the vendor's distributions."""

    began: str
    """ISO 8601, in UTC."""

    seconds: Seconds
    claims: dict[Name, ClaimResult]
    levels: tuple[LevelResult, ...]
    tests: tuple[TestResult, ...]
    digest: str = Field(default="")
    """Of all the rest, so that a report that was changed by accident or by hand is told."""

    @property
    def level(self) -> LevelResult | None:
        """The highest level that is granted."""
        granted = [level for level in self.levels if level.granted]
        return granted[-1] if granted else None

    def sealed(self) -> Report:
        """Return this report with its digest."""
        return self.model_copy(update={"digest": self.compute_digest()})

    def compute_digest(self) -> str:
        """Return the digest of everything but the digest; a fact that a later suite adds has a default, and no part."""
        told = self.model_copy(update={"digest": ""}).model_dump_json(exclude_defaults=True)
        return hashlib.sha256(told.encode()).hexdigest()

    def to_json(self) -> str:
        """Return it as the text of a file."""
        return self.model_dump_json(indent=1) + "\n"

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Report:
        """Return what :meth:`write` wrote; raises :class:`ReportError` where that is no report."""
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
