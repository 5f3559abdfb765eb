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
    """One thing to know: about whom, and what, which ends with what to do."""

    level: AdviceLevel
    about: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """Everything that was found; what a list does not ask about is empty.

    The keys of the doctor's JSON are the names of these fields and of the parts'.
    """

    northbridge: str
    python: str
    torch: str | None
    system: str = ""
    torch_problem: str = ""
    """Why ``import torch`` fails: then nothing is known of what needs torch."""
    asked: str | None = None
    """The backend that was asked about; ``None`` for all of them."""
    environment: tuple[Variable, ...] = ()
    namespaces: tuple[NamespaceRow, ...]
    selection: Selection | None = None
    backends: tuple[BackendReport, ...]
    trainings: dict[str, tuple[SelfTest, ...]] = field(default_factory=dict)
    """By the name of the backend; empty where no training was asked for."""
    record: tuple[Entry, ...] = ()
    advice: tuple[Advice, ...] = ()

    @property
    def broken(self) -> bool:
        """Whether torch, a backend, or an installed namespace of Lightning, cannot do its work."""
        backends = any(each.states.is_broken for each in self.backends)
        return bool(self.torch_problem) or backends or any(row.is_broken for row in self.namespaces)

    @property
    def exit_code(self) -> int:
        """0 all well, 1 something is wrong; where one backend was asked about, 3 no software, 4 no hardware."""
        levels = [each.level for each in self.advice if self.asked or each.level == "wrong"]
        return next((code for level, code in _EXIT_CODES.items() if level in levels), 0)

    def as_list(self) -> dict[str, Any]:
        """Return what a list tells, as plain values for JSON."""
        told = asdict(self)
        told["backends"] = [each["states"] for each in told["backends"]]
        keys = ("northbridge", "python", "torch", "backends", "namespaces", "record", "torch_problem")
        return {key: told[key] for key in keys}

    def as_dict(self) -> dict[str, Any]:
        """Return everything, as plain values for JSON."""
        return {**asdict(self), "exit_code": self.exit_code}
