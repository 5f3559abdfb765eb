"""A diagnosis: everything that was found out about this environment, and the advice that follows."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from northbridge.diagnostics.backends import BackendReport
    from northbridge.diagnostics.environment import Variable
    from northbridge.diagnostics.namespaces import NamespaceRow
    from northbridge.diagnostics.selection import Selection
    from northbridge.diagnostics.training import SelfTest
    from northbridge.process_record import Entry

AdviceLevel = Literal["wrong", "software missing", "hardware missing", "note"]
_EXIT_CODES = {"wrong": 1, "software missing": 3, "hardware missing": 4}


@dataclass(frozen=True)
class Advice:
    """One problem or note: its subject, and a text that ends with the fix."""

    level: AdviceLevel
    about: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All findings; fields that a list does not need are empty.

    The keys of the doctor's JSON are the names of these fields and of their parts' fields.
    """

    northbridge: str
    python: str
    torch: str | None
    system: str = ""
    torch_problem: str = ""
    """The reason why ``import torch`` fails; then everything that needs torch is unknown."""
    asked: str | None = None
    """The backend that was asked about; None for all backends."""
    environment: tuple[Variable, ...] = ()
    namespaces: tuple[NamespaceRow, ...]
    selection: Selection | None = None
    backends: tuple[BackendReport, ...]
    trainings: dict[str, tuple[SelfTest, ...]] = field(default_factory=dict)
    """By the backend's name; empty if no training was asked for."""
    record: tuple[Entry, ...] = ()
    advice: tuple[Advice, ...] = ()

    @property
    def broken(self) -> bool:
        """True if torch, a backend, or an installed namespace of Lightning cannot work."""
        backends = any(each.states.is_broken for each in self.backends)
        return bool(self.torch_problem) or backends or any(row.is_broken for row in self.namespaces)

    @property
    def exit_code(self) -> int:
        """0 if all is well, 1 if something is wrong; for one backend, 3 without software, 4 without hardware."""
        levels = [each.level for each in self.advice if self.asked or each.level == "wrong"]
        return next((code for level, code in _EXIT_CODES.items() if level in levels), 0)

    def as_list(self) -> dict[str, Any]:
        """Return the fields of a list, as plain values for JSON."""
        told = asdict(self)
        told["backends"] = [each["states"] for each in told["backends"]]
        keys = ("northbridge", "python", "torch", "backends", "namespaces", "record", "torch_problem")
        return {key: told[key] for key in keys}

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, as plain values for JSON."""
        return {**asdict(self), "exit_code": self.exit_code}
