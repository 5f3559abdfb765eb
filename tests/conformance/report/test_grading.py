"""Verdicts on tests and figures, and the levels that a run of the suite earns."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from northbridge import Claim, Within, no, unknown, yes
from northbridge.capabilities import LEVEL_CLAIMS, Capabilities
from northbridge.processes.question import describe_timeout
from northbridge_conformance.levels import LEVELS
from northbridge_conformance.report.grading import grant, judge_claims, judge_test
from northbridge_conformance.report.report import LevelResult
from northbridge_conformance.runner.event_log import Ended, Planned
from northbridge_conformance.verdict import PROPERTY, Ending, Figure, Verdict, VoidError, check, judge

PASSING: dict[str, tuple[str, ...]] = {
    f"{level}/Chip/{claim}": (claim,) for level, claims in LEVEL_CLAIMS.items() for claim in claims
}


def planned(name: str, claims: tuple[str, ...] = (), advice: str = "Look at Device.count().") -> Planned:
    return Planned(
        id=name,
        chosen=True,
        level=name[:2],
        topic="A chip.",
        title=name.rpartition("/")[2],
        claims=claims,
        advice=advice,
    )


def ended(name: str, ending: Ending = Ending.WORKED) -> Ended:
    return Ended(id=name, ending=ending, seconds=0.1, evidence="" if ending is Ending.WORKED else "it did not")


def earn(
    claims: dict[str, Claim], endings: dict[str, Ending] | None = None, *, asked: str = "C3", cases: int = 250
) -> dict[str, LevelResult]:
    """Return the levels of a backend in which all works but for ``endings``, in so many cases of each level."""
    tests = dict(PASSING)
    for level in LEVELS:
        tests |= {f"{level}/Chip/case_{number}": () for number in range(cases)}
    tests |= {name: tests.get(name, ()) for name in endings or {}}
    results = [
        judge_test(planned(name, shown), ended(name, (endings or {}).get(name, Ending.WORKED)), claims)
        for name, shown in tests.items()
        if list(LEVELS).index(name[:2]) <= list(LEVELS).index(asked)
    ]
    return {level.name: level for level in grant(asked, results, judge_claims(claims, results), simulated=True)}


def claiming(level: str = "C3", **others: object) -> dict[str, Claim]:
    return Capabilities.of_level(level, **others).claims()  # type: ignore[arg-type]  # as a test's parameter is


def test_all_that_is_claimed_and_proved_earns_the_level() -> None:
    """A backend that claims nothing has the first one alone."""
    levels, nothing = earn(claiming()), earn(Capabilities().claims())

    assert [(name, level.granted) for name, level in levels.items()] == [(f"C{number}", True) for number in range(4)]
    assert levels["C3"].label == "C3 (simulated)"
    assert levels["C3"].cases == 250 + len(LEVEL_CLAIMS["C3"])
    assert [name for name, level in nothing.items() if level.granted] == ["C0"]
    assert "it needs the claim 'float32', and the backend says 'unknown'" in nothing["C1"].withheld
    assert "C1 is not granted" in nothing["C2"].withheld


def test_denied_deniable_claim_keeps_the_level() -> None:
    claims = claiming(random_numbers=no("it draws on the host"))

    assert earn(claims, {"C1/Chip/random_numbers": Ending.REFUSED})["C1"].granted
    assert earn(claims)["C1"].withheld == (
        "UNDERCLAIM: random_numbers",
        "it needs the claim 'random_numbers' or its denial, which is hidden",
    )


@pytest.mark.parametrize(
    ("others", "endings", "withheld"),
    [
        ({}, {"barrier": Ending.HUNG}, ["TIMEOUT: barrier", "it needs the claim 'barrier', which is false"]),
        ({}, {"barrier": Ending.VOID}, ["VOID: barrier", "it needs the claim 'barrier', which is not tested"]),
        (
            {"barrier": no("it copies")},
            {},
            ["UNDERCLAIM: barrier", "it needs the claim 'barrier', and the backend says 'no'"],
        ),
        ({}, {"case_3": Ending.FAILED}, ["FAIL: case_3"]),
        ({}, {"case_1": Ending.FORBIDDEN}, ["NOT RUN: case_1: it did not"]),
        (
            {},
            {f"case_{number}": Ending.FORBIDDEN for number in range(1, 6)},
            ["NOT RUN: case_1 and 4 more: it did not"],
        ),
    ],
    ids=["a hang", "void", "denied and works", "a failure", "forbidden", "one reason forbids many"],
)
def test_reasons_for_which_a_level_is_withheld(
    others: dict[str, Claim], endings: dict[str, Ending], withheld: list[str]
) -> None:
    levels = earn(claiming("C3", **others), {f"C3/Chip/{name}": each for name, each in endings.items()})

    assert levels["C2"].granted
    assert levels["C3"].withheld == tuple(withheld)


def test_too_few_cases_say_too_little() -> None:
    levels = earn(claiming(), cases=10)

    assert levels["C2"].granted
    assert levels["C3"].withheld == (f"{10 + len(LEVEL_CLAIMS['C3'])} of its tests ran, and it needs 200",)
    (level,) = grant("C0", [], judge_claims({}, []), simulated=False)
    assert level.withheld == ("0 of its tests ran, and it needs 1",)


def test_a_library_of_an_extra_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown claim that no level lists withholds nothing either."""
    monkeypatch.setitem(PASSING, "C3/Chip/zero", ("deepspeed",))
    claims = claiming(deepspeed=yes, profiler=unknown)
    endings = {"C3/Chip/zero": Ending.FORBIDDEN, "C2/Chip/profiler": Ending.WORKED}
    results = [
        judge_test(planned(name, (claim,)), ended(name, endings[name]), claims)
        for name, claim in (("C3/Chip/zero", "deepspeed"), ("C2/Chip/profiler", "profiler"))
    ]

    assert [each.verdict for each in results] == [Verdict.NOT_RUN, Verdict.UNKNOWN]
    found = judge_claims(claims, results)
    assert (found["deepspeed"].finding, found["profiler"].finding) == ("not tested", "unknown")
    assert earn(claims, endings)["C3"].granted


def test_a_claim_is_what_its_tests_say() -> None:
    claims = {"views": yes, "fit": yes, "resume": no("it forgets"), "barrier": no("it has none"), "float32": yes}
    results = [
        judge_test(planned(f"C1/Chip/{name}", (name,)), ended(f"C1/Chip/{name}", ending), claims)
        for name, ending in (
            ("views", Ending.WORKED),
            ("fit", Ending.FAILED),
            ("resume", Ending.REFUSED),
            ("barrier", Ending.WORKED),
        )
    ]

    assert {name: claim.finding for name, claim in judge_claims(claims, results).items()} == {
        "views": "proved",
        "fit": "false",
        "resume": "refused",
        "barrier": "hidden",
        "float32": "not tested",
    }


OPERATORS = {"lstm": no("it has no cell"), "asin": Within(3e-4, "its table has 12 bits")}


@pytest.mark.parametrize(
    ("ending", "verdict", "denied"),
    [
        (Ending.REFUSED, Verdict.PASS, "refused"),
        (Ending.WORKED, Verdict.UNDERCLAIM, "hidden"),
        (Ending.FAILED, Verdict.FAIL, "false"),
    ],
)
def test_denied_operator_has_to_be_refused_where_it_was_called(ending: Ending, verdict: Verdict, denied: str) -> None:
    """What a test calls is known when it has ended; a claim of yes beside the denied operator's stays as it is."""
    claims = claiming("C1", operators=OPERATORS)
    other, called = "C1/Chip/other", "C1/Chip/called"
    of_operators = ("operators.lstm", "operators.asin")
    results = [
        judge_test(planned(other, ("float32",)), ended(other), claims),
        judge_test(
            planned(called, ("float32",)), ended(called, ending).model_copy(update={"claims": of_operators}), claims
        ),
    ]

    found = judge_claims(claims, results)

    assert [result.verdict for result in results] == [Verdict.PASS, verdict]
    assert results[1].claims == ("float32", *of_operators)
    assert found["operators.lstm"].finding == denied
    assert found["float32"].finding == ("false" if ending is Ending.FAILED else "proved")
    advice = "The chip can do this: leave lstm out of Capabilities(operators=…), or let it raise an error."
    assert (results[1].advice == advice) == (verdict is Verdict.UNDERCLAIM)


def test_advice_is_given_where_something_is_wrong() -> None:
    claims = {"views": no("it copies")}

    def advice(ending: Ending, *shown: str) -> str:
        return judge_test(planned("C1/Chip/case", shown), ended("C1/Chip/case", ending), claims).advice

    assert advice(Ending.WORKED) == ""
    assert advice(Ending.FAILED) == "Look at Device.count()."
    assert "claim 'views' as northbridge.yes" in advice(Ending.WORKED, "views")
    assert "Run the suite on a machine that allows it" in advice(Ending.FORBIDDEN)
    assert advice(Ending.VOID).startswith("Make the chip's results repeatable")
    assert advice(Ending.HUNG) == "Look at Device.count()."
    slow = ended("C1/Chip/case", Ending.HUNG).model_copy(update={"evidence": describe_timeout(20, 60, name="acme")})
    assert judge_test(planned("C1/Chip/case"), slow, {}).advice.startswith("Run the suite again when this machine is")


@pytest.mark.parametrize(
    ("chosen", "evidence", "advice"),
    [
        (False, "it was not asked for", "Run the suite without --only."),
        (True, "Ctrl-C or SIGTERM ended the suite before this test ended", "Run the suite again, to its end."),
    ],
)
def test_a_test_without_an_ending_has_not_run(chosen: bool, evidence: str, advice: str) -> None:
    result = judge_test(planned("C1/Chip/case").model_copy(update={"chosen": chosen}), None, {})

    assert (result.verdict, result.evidence, result.advice) == (Verdict.NOT_RUN, evidence, advice)


DENIED = no("it has no such unit")


@pytest.mark.parametrize(
    ("claims", "ending", "verdict"),
    [
        ([], Ending.WORKED, Verdict.PASS),
        ([], Ending.REFUSED, Verdict.FAIL),
        ([yes], Ending.WORKED, Verdict.PASS),
        ([yes], Ending.FAILED, Verdict.FAIL),
        ([DENIED], Ending.WORKED, Verdict.UNDERCLAIM),
        ([DENIED], Ending.REFUSED, Verdict.PASS),
        ([DENIED], Ending.FAILED, Verdict.FAIL),
        ([unknown], Ending.WORKED, Verdict.UNKNOWN),
        ([unknown], Ending.FAILED, Verdict.UNKNOWN),
        ([yes, unknown], Ending.WORKED, Verdict.UNKNOWN),
        ([unknown, DENIED], Ending.REFUSED, Verdict.PASS),
        ([yes, DENIED], Ending.WORKED, Verdict.UNDERCLAIM),
        ([yes], Ending.VOID, Verdict.VOID),
        ([DENIED], Ending.VOID, Verdict.VOID),
        ([unknown], Ending.VOID, Verdict.UNKNOWN),
        *(([claim], Ending.HUNG, Verdict.TIMEOUT) for claim in (yes, DENIED, unknown)),
        *(([claim], Ending.FORBIDDEN, Verdict.NOT_RUN) for claim in (yes, DENIED, unknown)),
    ],
)
def test_what_is_claimed_decides_what_an_ending_says(claims: list[Claim], ending: Ending, verdict: Verdict) -> None:
    assert judge(ending, claims) is verdict


def figure(found: float, gate: float) -> Figure:
    return Figure(name="gradient of weight", found=found, bound=1e-3, gate=gate)


def test_figures_within_their_bounds_are_recorded() -> None:
    recorded: list[tuple[str, object]] = []
    figures = [figure(5e-4, 1e-4), figure(0.0, 0.0)]

    check(lambda name, value: recorded.append((name, value)), figures)

    assert recorded == [(PROPERTY, each.model_dump()) for each in figures]
    assert [each.margin for each in figures] == [2.0, math.inf]


@pytest.mark.parametrize(
    ("found", "bound", "gate"),
    [(2e-3, 1e-3, 1e-4), (math.nan, 1e-3, 1e-4), (math.inf, 1e-3, 1e-4), (0.0, math.nan, 0.0), (0.0, math.inf, 0.0)],
)
def test_figure_beyond_its_bound_fails(found: float, bound: float, gate: float) -> None:
    """A bound that is not finite passes nothing."""
    with pytest.raises(AssertionError, match=rf"than the bound: norm: .* off, bound .*, gate {gate:.2g}"):
        check(lambda *_: None, [Figure(name="norm", found=found, bound=bound, gate=gate)])


@pytest.mark.parametrize("gate", [2e-3, math.nan])
@pytest.mark.parametrize("found", [0.0, 2e-3])
def test_gate_beyond_the_bound_is_void(found: float, gate: float) -> None:
    with pytest.raises(VoidError, match="two right ways to compute differ by more than the bound on this device"):
        check(lambda *_: None, [figure(found, gate)])


def test_figure_crosses_json() -> None:
    """Its distance must be a number."""
    for each in (figure(math.nan, math.inf), figure(1e-5, 0.0)):
        assert Figure.model_validate_json(each.model_dump_json()) == each
    with pytest.raises(ValidationError, match="valid number"):
        Figure.model_validate_json('{"name": "norm", "found": "far", "bound": 1.0, "gate": 0.0}')
