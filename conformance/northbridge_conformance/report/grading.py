"""Grading of a run of the suite: the levels that it earns, and the claims that it proves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from northbridge.capabilities import DENIABLE, LEVEL_CLAIMS, OPERATORS, Claim
from northbridge.processes.question import LIMIT_EXCEEDED
from northbridge_conformance.levels import LEVELS, Level
from northbridge_conformance.report.report import INTERRUPTED, NOT_ASKED, ClaimResult, Finding, LevelResult, TestResult
from northbridge_conformance.runner.event_log import Ended, Planned
from northbridge_conformance.runner.supervisor import Course
from northbridge_conformance.verdict import Ending, Verdict, judge

_UNTAGGED_ADVICE = "Read the evidence, and run this test alone: --only with its id."


def judge_test(test: Planned, ended: Ended | None, claims: Mapping[str, Claim]) -> TestResult:
    """Return the result of one test; NOT RUN if it did not finish."""
    if ended is None:
        reason = INTERRUPTED if test.chosen else NOT_ASKED
        ended = Ended(id=test.id, ending=Ending.FORBIDDEN, seconds=0.0, evidence=reason)
    shown = (*test.claims, *ended.claims)
    verdict = judge(ended.ending, [claims[name] for name in shown if name in claims])
    denied = [name for name in shown if name in claims and claims[name].denied]
    good = verdict in (Verdict.PASS, Verdict.UNKNOWN)
    return TestResult(
        id=test.id,
        level=test.level,
        topic=test.topic,
        title=test.title,
        verdict=verdict,
        ending=ended.ending,
        claims=shown,
        seconds=round(ended.seconds, 3),
        evidence=ended.evidence,
        advice="" if good else _advise(verdict, test, ended, denied),
        figures=ended.figures,
    )


def judge_tests(course: Course, claims: Mapping[str, Claim]) -> list[TestResult]:
    """Return the result of each planned test."""
    return [judge_test(test, course.ended.get(test.id), claims) for test in course.planned.values()]


def judge_claims(claims: Mapping[str, Claim], tests: Iterable[TestResult]) -> dict[str, ClaimResult]:
    """Return the finding of ``tests`` about each claim."""
    about: dict[str, list[TestResult]] = {name: [] for name in claims}
    for test in tests:
        for name in test.claims:
            if name in about:
                about[name].append(test)
    return {
        name: ClaimResult(
            answer=claim.answer, reason=claim.reason, finding=_find(claim, about[name]), tests=len(about[name])
        )
        for name, claim in claims.items()
    }


def grant(
    asked: str, tests: Iterable[TestResult], claims: Mapping[str, ClaimResult], *, simulated: bool
) -> tuple[LevelResult, ...]:
    """Return each level up to ``asked``, with every reason why it is not granted."""
    by_level: dict[str, list[TestResult]] = {name: [] for name in LEVELS}
    for test in tests:
        by_level[test.level].append(test)
    results: list[LevelResult] = []
    for name, level in LEVELS.items():
        ran = [test for test in by_level[name] if test.verdict is not Verdict.NOT_RUN]
        withheld = [*_below(results), *_missing(level, ran), *_bad(by_level[name]), *_unproved(level, claims)]
        results.append(
            LevelResult(
                name=name,
                title=level.title,
                granted=not withheld,
                simulated=simulated,
                cases=len(ran),
                withheld=tuple(withheld),
            )
        )
        if name == asked:
            break
    return tuple(results)


def _below(results: list[LevelResult]) -> list[str]:
    return [f"{results[-1].name} is not granted"] if results and not results[-1].granted else []


def _missing(level: Level, ran: list[TestResult]) -> list[str]:
    least = max(level.least_cases, 1)
    return [f"{len(ran)} of its tests ran, and it needs {least}"] if len(ran) < least else []


def _bad(tests: list[TestResult]) -> list[str]:
    harmless = (Verdict.PASS, Verdict.UNKNOWN, Verdict.NOT_RUN)
    forbidden: dict[str, list[str]] = {}  # one reason often forbids many tests
    for test in tests:
        if test.verdict is Verdict.NOT_RUN and not _is_extra(test):
            forbidden.setdefault(test.evidence, []).append(test.title)
    return [
        *(f"{test.verdict.value}: {test.title}" for test in tests if test.verdict not in harmless),
        *(
            f"{Verdict.NOT_RUN.value}: {first}{f' and {len(more)} more' if more else ''}: {reason}"
            for reason, (first, *more) in forbidden.items()
        ),
    ]


def _is_extra(test: TestResult) -> bool:
    """Return True for a test that the machine forbade, of claims that no level asks for.

    A library that only such a feature needs may be missing; its claim is "not tested" then.
    """
    asked = any(name in claims for name in test.claims for claims in LEVEL_CLAIMS.values())
    return bool(test.claims) and not asked and test.evidence not in (NOT_ASKED, INTERRUPTED)


def _unproved(level: Level, claims: Mapping[str, ClaimResult]) -> list[str]:
    reasons = []
    for name in level.claims:
        claim = claims.get(name)
        if claim is not None and claim.answer == "no" and name in DENIABLE:
            if claim.finding != "refused":
                reasons.append(f"it needs the claim {name!r} or its denial, which is {claim.finding}")
        elif claim is None or claim.answer != "yes":
            answer = claim.answer if claim else "nothing"
            reasons.append(f"it needs the claim {name!r}, and the backend says {answer!r}")
        elif claim.finding != "proved":
            reasons.append(f"it needs the claim {name!r}, which is {claim.finding}")
    return reasons


def _find(claim: Claim, tests: list[TestResult]) -> Finding:
    verdicts = {test.verdict for test in tests} - {Verdict.NOT_RUN}
    if claim.answer == "unknown":
        return "unknown"
    if claim.denied and Verdict.UNDERCLAIM in verdicts:
        return "hidden"  # another claim of that test may be a yes, about which it says nothing
    if verdicts & {Verdict.FAIL, Verdict.TIMEOUT}:
        return "false"
    # A test that also shows an unknown claim says nothing about this one.
    if Verdict.PASS not in verdicts or any(test.verdict in (Verdict.NOT_RUN, Verdict.VOID) for test in tests):
        return "not tested"
    return "proved" if claim.answer == "yes" else "refused"


def _advise(verdict: Verdict, test: Planned, ended: Ended, denied: list[str]) -> str:
    if verdict is Verdict.UNDERCLAIM and any(name.startswith(OPERATORS) for name in denied):
        names = " and ".join(name.removeprefix(OPERATORS) for name in denied)
        return f"The chip can do this: leave {names} out of Capabilities(operators=…), or let it raise an error."
    claims = " and ".join(map(repr, denied))
    if verdict is Verdict.UNDERCLAIM:
        return f"The chip can do this: claim {claims} as northbridge.yes, or let it refuse with an error that says so."
    if ended.evidence == NOT_ASKED:
        return "Run the suite without --only."
    if ended.evidence == INTERRUPTED:
        return "Run the suite again, to its end."
    if verdict is Verdict.VOID:
        return (
            "Make the chip's results repeatable, as by deterministic kernels, and let it add gradients up in float32;"
            " until then the level is withheld."
        )
    if verdict is Verdict.TIMEOUT and LIMIT_EXCEEDED in ended.evidence:
        return "Run the suite again when this machine is less busy. If it is not busy, the driver hangs."
    if verdict is Verdict.NOT_RUN:
        return "Run the suite on a machine that allows it; until then the level is withheld."
    return test.advice or _UNTAGGED_ADVICE
