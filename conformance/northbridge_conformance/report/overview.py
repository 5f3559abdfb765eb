"""What a report says, in words: its level, counts, claims and doubts, with the meaning of each word."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import MappingProxyType

from northbridge.capabilities import OPERATORS, Capabilities
from northbridge_conformance.report.report import NOT_ASKED, Finding, Report, TestResult
from northbridge_conformance.verdict import Ending, Verdict

ABILITIES: Mapping[str, str] = MappingProxyType(
    {
        "C0": "the plugin installs, is found, and reports missing software or hardware clearly",
        "C1": "one device computes what the CPU computes",
        "C2": "Lightning trains on one device",
        "C3": "several devices train together",
        "C4": "training lasts, also through faults",
    }
)
"""What a chip of each level can do, as the end of a sentence."""

LEVELS: Mapping[str, str] = MappingProxyType(
    {
        "C0": "Nothing has been computed with it.",
        "C1": "It covers tensors, views, random numbers, memory and gradients. A real device is within the suite's"
        " tolerances for each operation, and a simulated one is bit-exact.",
        "C2": "Every stage runs, and the precisions that are claimed. Checkpoints open on the CPU too, and a training"
        " resumes to the bit.",
        "C3": "Each collective operation gives the right numbers, and two and four ranks learn what one process learns"
        " from the whole batch.",
        "C4": "Ranks are killed, and restarted. A thousand steps run in steady memory, two jobs side by side, and a job"
        " on two nodes.",
    }
)
"""What the tests of each level have shown."""

PART = (
    "Only the tests that were asked for ran, so that no level can be granted or withheld. Run the suite without --only."
)
NO_LEVEL = (
    "On this machine, a test of the first level did not pass or did not run. Rely only on the claims that are proved"
    " below."
)
SIMULATED = (
    "The device is simulated: this computer's own memory and processor stand in for the chip. What is shown is the"
    " software around a chip. Nothing is claimed about a real one, neither its numbers nor its speed nor its memory."
)

VERDICTS: Mapping[Verdict, str] = MappingProxyType(
    {
        Verdict.FAIL: "A required or claimed ability does not work, or a denied one is not refused.",
        Verdict.TIMEOUT: "It took longer than its limit, and was ended.",
        Verdict.UNDERCLAIM: "It works, although the backend says that it cannot do this: the claim is wrong.",
        Verdict.VOID: "Neither passed nor failed: on this device, two right ways to compute differ by more than the"
        " bound, so a comparison shows nothing.",
        Verdict.NOT_RUN: "This machine cannot run the test, because it has too few devices for example, or the test was"
        " not asked for. Nothing is known.",
        Verdict.UNKNOWN: "The backend does not say whether it can do this, so the outcome proves nothing.",
        Verdict.PASS: "It works as claimed; or the backend says that it cannot do this, and refuses it clearly.",
    }
)
"""Explanation of each verdict, in the order in which they are shown: the most urgent first."""

CLAIMS: Mapping[Finding, str] = MappingProxyType(
    {
        "proved": "claimed, and every test of it passed here, up to the level that was asked for: rely on it",
        "refused": "the backend says no, and an attempt ends in a clear error, or a warning: you will be told",
        "false": "what the backend says is wrong: do not rely on it",
        "hidden": "the backend says no, yet it works: the vendor has not promised it",
        "unknown": "the backend does not say, or Northbridge does not support it yet: try it before you rely on it",
        "not tested": "no test that ran here shows it: nothing is known beyond what the backend says",
    }
)
"""Advice for each kind of finding, in the order in which they are shown."""

MARKS: Mapping[str, str] = MappingProxyType(
    {"proved": "✓", "refused": "–", "false": "✗", "hidden": "!", "unknown": "?", "not tested": "·"}
)
"""The sign of each finding."""

CLAIMED: Mapping[str, str] = MappingProxyType(
    {each.name: each.metadata["meaning"] for each in fields(Capabilities) if "meaning" in each.metadata}
)
"""Meaning of each claim for a user."""

ORDER = tuple(VERDICTS)
"""Every verdict, the most urgent first."""

FAILURES = (Verdict.FAIL, Verdict.TIMEOUT, Verdict.UNDERCLAIM)
"""The verdicts that the backend causes. They withhold a level, as tests that could not run also do."""

ATTENTION = (*FAILURES, Verdict.VOID)
"""The verdicts that are shown with their evidence and what to do."""


def is_part(report: Report) -> bool:
    """Return True if tests were left out because only part of the suite was requested."""
    return any(test.evidence == NOT_ASKED for test in report.tests)


def name_level(report: Report) -> str:
    """Return the display name of the granted level, such as ``"C3 (simulated)"``, or a text that there is none."""
    if is_part(report):
        return "A part of the suite"
    return report.level.label if report.level is not None else "No level granted"


def name_product(report: Report) -> str:
    """Return the product's name as its device says it, such as ``"Acme One"``; without a device, the backend's name."""
    name = report.backend.label or report.backend.name
    return f"{name} (simulated)" if report.backend.simulated and "simulated" not in name.lower() else name


def summarize(report: Report) -> str:
    """Return the level of the product and its meaning in a sentence."""
    if is_part(report):
        return f"A part of the suite ran on {name_product(report)}, which grants no level"
    if report.level is None:
        return f"{name_product(report)} has no level"
    return f"{name_product(report)} has level {report.level.name}: {ABILITIES[report.level.name]}"


def explain_level(report: Report) -> str:
    """Return the meaning of the granted level, or why there is none."""
    if is_part(report):
        return PART
    return describe_level(report.level.name) if report.level is not None else NO_LEVEL


def describe_level(name: str) -> str:
    """Return what a chip of the level can do, and what its tests have shown, in a few sentences."""
    return f"{ABILITIES[name][0].upper()}{ABILITIES[name][1:]}. {LEVELS[name]}"


def repeat(report: Report, test: TestResult | None = None) -> str:
    """Return the command that runs the suite of the report again, or only one ``test``."""
    simulated = report.machine.environment.get("NORTHBRIDGE_SIMULATE")
    words = [f"NORTHBRIDGE_SIMULATE={shlex.quote(simulated)}"] if simulated else []
    words += ["northbridge conformance", shlex.quote(report.backend.name)]
    words += ["--level", report.suite.asked if test is None else test.level]
    return " ".join(words + ([] if test is None else ["--only", shlex.quote(test.id)]))


def list_software(report: Report) -> str:
    """Return the versions of the driver, the vendor's software, torch and Lightning."""
    found = {**report.machine.described, **report.versions}
    return ", ".join(f"{name} {version}" for name, version in found.items())


def count_devices(report: Report) -> str:
    """Return the number and product of the machine's devices: ``"4 × Acme X1"``, or ``"no device"``."""
    backend = report.backend
    return f"{backend.devices} × {backend.label}" if backend.devices else "no device"


def count_verdicts(report: Report) -> dict[Verdict, int]:
    """Return the number of tests with each verdict, in the order of :data:`ORDER`, without zeros."""
    counts = Counter(test.verdict for test in report.tests)
    return {verdict: counts[verdict] for verdict in ORDER if counts[verdict]}


def count_run(report: Report) -> int:
    """Return the number of tests that ran, without those that this machine forbids."""
    return sum(test.ending is not Ending.FORBIDDEN for test in report.tests)


def count_operators(report: Report) -> str:
    """Return how many operators of torch the chip denies and loosens, such as ``"2 denied, 1 loosened"``; else empty.

    These count as claims, too; a reader has to see a chip that denies half of torch.
    """
    answers = [claim.answer for name, claim in report.claims.items() if name.startswith(OPERATORS)]
    return f"{answers.count('no')} denied, {answers.count('yes')} loosened" if answers else ""


def list_silent_errors(report: Report) -> list[str]:
    """Return a sentence for each error that the chip makes in silence, by the backend's own word."""
    claim = report.claims.get("device_checks")
    if claim is None or claim.answer != "no":
        return []
    what = "an operation on one of its tensors and one of the CPU's gives numbers instead of an error"
    return [f"A silent error of the chip: {what} ({claim.reason})."]


def group_claims(report: Report) -> dict[str, list[str]]:
    """Return the names of the claims by finding; findings without claims are omitted."""
    groups = {
        finding: [name for name, claim in report.claims.items() if claim.finding == finding] for finding in CLAIMS
    }
    return {finding: names for finding, names in groups.items() if names}


def of_verdict(report: Report, *verdicts: Verdict) -> list[TestResult]:
    """Return the tests with one of ``verdicts``, in the order of ``verdicts`` and then of the run."""
    return [test for verdict in verdicts for test in report.tests if test.verdict is verdict]


def group_by_reason(tests: Iterable[TestResult]) -> dict[str, list[TestResult]]:
    """Return the tests that could not run, by reason: one reason often forbids many tests."""
    groups: dict[str, list[TestResult]] = {}
    for test in tests:
        groups.setdefault(test.evidence.strip() or "no reason is given", []).append(test)
    return groups


def list_doubts(report: Report) -> list[str]:
    """Return the reasons not to trust the report, a sentence each; empty for a sound report."""
    doubts = []
    if report.suite.options_off:
        doubts.append(
            f"The simulated chip ran without strict options ({'; '.join(report.suite.options_off)}): what it forgave, a"
            " real one may not."
        )
    if report.is_changed:
        doubts.append(
            "The report was changed after it was written: its digest does not fit. Ask for the original, or run the"
            " suite again."
        )
    told = {test.id for test in report.tests}
    if missing := [each for each in report.suite.expected if each not in told]:
        doubts.append(
            f"The report is incomplete: {len(missing)} of {len(report.suite.expected)} tests are missing, such as"
            f" {missing[0]}. Run the suite again."
        )
    return doubts


def show_seconds(seconds: float) -> str:
    """Return a duration in seconds as text: ``"0.02 s"``, ``"14 s"``, ``"3 min 20 s"``."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60} s"


def show_memory(size: int) -> str:
    """Return a number of bytes as text in GiB: ``"8.0 GiB"``."""
    return f"{size / 2**30:.1f} GiB"


def show_moment(moment: str) -> str:
    """Return an ISO 8601 time in UTC as text, to the minute: ``"2026-11-24 20:40 UTC"``."""
    return f"{moment[:16].replace('T', ' ')} UTC"
