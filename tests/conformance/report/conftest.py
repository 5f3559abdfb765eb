"""Reports as runs of the suite leave them: of a good simulated chip, of one with every verdict, and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from northbridge.capabilities import Capabilities
from northbridge_conformance.levels import LEVELS
from northbridge_conformance.report.report import (
    BackendFacts,
    ClaimResult,
    LevelResult,
    MachineFacts,
    Report,
    SuiteFacts,
    TestResult,
)
from northbridge_conformance.verdict import Ending, Verdict

TRACEBACK = (
    "    def test_views(self, device):\n"
    + "".join(f"        step {number} of a long test\n" for number in range(30))
    + "E       AssertionError: a view of a view has its own memory\nE       assert [0, 1] == [0, 7]\n"
)
STACKS = "rank 0:\n  File train.py, line 3, in fit\nrank 1:\n  File collective.py, line 40, in barrier"
HOSTILE = "\x1b[31m</script><script>document.title='owned'</script>\x1b[0m <img src=x onerror=alert(1)> \x00 \u202e ]]>"

_ENDINGS = {
    Verdict.PASS: Ending.WORKED,
    Verdict.FAIL: Ending.FAILED,
    Verdict.UNDERCLAIM: Ending.WORKED,
    Verdict.UNKNOWN: Ending.WORKED,
    Verdict.TIMEOUT: Ending.HUNG,
    Verdict.NOT_RUN: Ending.FORBIDDEN,
    Verdict.VOID: Ending.VOID,
}
_CLASSES: dict[str, tuple[str, str, str, int]] = {
    "Plugin": ("C0", "What is installed, and what it says of itself.", "plugin fact", 12),
    "Device": ("C1", "Tensors on one device, without Lightning.", "device semantics", 59),
    "Operations": ("C1", "Torch's operations and their gradients are near the CPU's.", "an operation", 8),
    "Training": ("C2", "Lightning trains every model, and each stage runs.", "the weights are a CPU's on rank", 39),
    "Checkpoints": ("C2", "What is saved opens on the chip and on the CPU.", "a checkpoint opens on the CPU", 24),
    "Collective": ("C3", "As many ranks as devices exchange tensors and objects.", "all reduce", 209),
}
"""The level, the topic, and the title and number of the passing tests of each class."""


def result(
    class_name: str, title: str, verdict: Verdict = Verdict.PASS, *, parameters: str = "", **facts: Any
) -> TestResult:
    """Return one test of a report, which has these ``facts``."""
    (level, topic, *_), brackets = _CLASSES[class_name], f"[{parameters}]" if parameters else ""
    told = {
        "id": f"{level}/{class_name}/test_{title.replace(' ', '_')}{brackets}",
        "title": f"{title} ({parameters})" if parameters else title,
        **dict.fromkeys(("evidence", "advice"), ""),
        "ending": _ENDINGS[verdict],
        "claims": (),
        "seconds": 0.25,
    }
    return TestResult.model_validate({**told, "level": level, "topic": topic, "verdict": verdict, **facts})


def passing() -> list[TestResult]:
    """Return the tests of a run in which all is well."""
    tests = [
        result(name, f"{title} {number}")
        for name, (_, _, title, count) in _CLASSES.items()
        for number in range(1, count + 1)
    ]
    refusal = "UnsupportedError: float8 was asked for, and 'acme' cannot do this: the chip has no such unit"
    tests.append(result("Training", "float8 is refused", evidence=refusal, claims=["float8"], ending=Ending.REFUSED))
    return sorted(tests, key=lambda test: test.level)


def report_of(
    tests: Sequence[TestResult],
    *,
    name: str = "acme",
    withheld: Mapping[str, Sequence[str]] | None = None,
    findings: Mapping[str, tuple[str, str]] | None = None,
    simulated: bool = True,
    sources: str = "5f0c8a7e91b2",
) -> Report:
    """Return a whole report of ``tests``; ``findings`` are answers and findings of claims, proved but for these."""
    below = True
    levels = []
    for level in ("C0", "C1", "C2", "C3"):
        reasons = tuple((withheld or {}).get(level, ()))
        if not below:
            reasons = (*reasons, "the level below is withheld")
        below = not reasons
        cases = sum(test.level == level and test.ending is not Ending.FORBIDDEN for test in tests)
        facts = {"name": level, "title": LEVELS[level].title, "simulated": simulated, "cases": cases}
        title = LEVELS[level].title
        levels.append(
            LevelResult(name=level, title=title, granted=below, simulated=simulated, cases=cases, withheld=reasons)
        )
    claims = {}
    for claim, stated in Capabilities.of_level("C3").claims().items():
        proved = stated.answer, "proved" if stated.answer == "yes" else "unknown"
        answer, finding = (findings or {}).get(claim, proved)
        reason = "the chip has no such unit" if answer == "no" else stated.reason
        facts = {"answer": answer, "reason": reason, "finding": finding, "tests": 7 * (finding != "not tested")}
        claims[claim] = ClaimResult.model_validate(facts)
    return Report(
        suite=SuiteFacts(northbridge="0.1.0", sources=sources, asked="C3", expected=tuple(test.id for test in tests)),
        backend=BackendFacts(
            name=name,
            distribution=f"northbridge-{name}",
            version="1.2",
            api=2,
            device=name,
            collective=f"{name}ccl",
            simulated=simulated,
            devices=4,
            label="Simulated Acme X100" if simulated else "Acme X100",
        ),
        machine=MachineFacts(
            system="Linux 6.1 x86_64",
            processor="Acme Xeon",
            cores=2,
            memory=8 * 2**30,
            environment={"OMP_NUM_THREADS": "1", **({"NORTHBRIDGE_SIMULATE": name} if simulated else {})},
            described={"driver": "7.1"},
        ),
        versions={"python": "3.11.9", "torch": "2.13.0", "lightning": "2.6.6", f"northbridge-{name}": "1.2"},
        began="2026-11-24T20:40:45+00:00",
        seconds=211.4,
        claims=claims,
        levels=tuple(levels),
        tests=tuple(tests),
    ).sealed()


@pytest.fixture
def good() -> Report:
    """A simulated chip that does what it claims, up to C3."""
    return report_of(passing(), findings={"float8": ("no", "refused"), "float64": ("no", "refused")})


@pytest.fixture
def mixed() -> Report:
    """A real chip with every verdict and every finding, of which C0 is granted."""
    scaler = "See that the gradient scaler of the chip is the one that Lightning is given."
    no_unit = "it worked, although 'acme' says no: the chip has no such unit"
    too_few = "it needs 8 devices of acme, and this machine has 4"
    view: dict[str, Any] = {"evidence": TRACEBACK, "advice": "Look at the strides that your kernels are given."}
    scaled: dict[str, Any] = {"evidence": "E  assert 1.0 == 65536.0", "advice": scaler, "claims": ["float16"]}
    hidden: dict[str, Any] = {"evidence": no_unit, "advice": "Claim bfloat16, or refuse it.", "claims": ["bfloat16"]}
    hangs: dict[str, Any] = {"evidence": STACKS, "advice": "See that the barrier returns.", "claims": ["barrier"]}
    wrong = [
        result("Training", "fp16 scales its gradients", Verdict.FAIL, **scaled),
        result("Training", "a view of a view", Verdict.FAIL, **view),
        result("Checkpoints", "a checkpoint after a view", Verdict.FAIL, **view),
        result("Collective", "a barrier waits", Verdict.TIMEOUT, **hangs),
        result("Training", "bf16 trains", Verdict.UNDERCLAIM, **hidden),
        result("Collective", "all gather of eight ranks", Verdict.NOT_RUN, evidence=too_few, advice="Use eight."),
        result("Device", "float64 adds", Verdict.UNKNOWN, claims=["float64"], evidence="it worked"),
        result("Operations", "an operation", Verdict.FAIL, parameters="svd", evidence="E  1e-2 > 1e-5"),
    ]
    return report_of(
        [*passing(), *wrong],
        simulated=False,
        withheld={
            "C1": ["1 test of it did not pass: C1/Operations/test_an_operation[svd]"],
            "C2": [
                "3 tests of it did not pass, the first of them C2/Training/test_fp16_scales_its_gradients",
                "resume is not proved: unknown",
            ],
            "C3": ["barrier is not proved: TIMEOUT", "1 test of it could not run"],
        },
        findings={
            "float16": ("yes", "false"),
            "bfloat16": ("no", "hidden"),
            "float8": ("no", "refused"),
            "resume": ("unknown", "unknown"),
            "barrier": ("yes", "not tested"),
        },
    )


@pytest.fixture
def partial() -> Report:
    """A real chip that denies two operators, loosens one, and lacks device checks."""
    claims = {"operators.lstm": "no", "operators.gru": "no", "operators.asin": "yes", "device_checks": "no"}
    found = {
        name: ClaimResult.model_validate(
            {"answer": answer, "reason": "its table has 12 bits", "finding": "refused", "tests": 3}
        )
        for name, answer in claims.items()
    }
    report = report_of(passing(), simulated=False)
    return report.model_copy(update={"claims": report.claims | found}).sealed()


@pytest.fixture
def nothing() -> Report:
    """A backend of which nothing is granted."""
    no_hook: dict[str, Any] = {"evidence": "E  TypeError: None", "advice": "Return one."}
    tests = [result("Plugin", "the hook returns a backend", Verdict.FAIL, **no_hook), result("Plugin", "it is pickled")]
    claims = dict.fromkeys(Capabilities().claims(), ("unknown", "unknown"))
    withheld = {"C0": ["C0/Plugin/test_the_hook_returns_a_backend: FAIL"]}
    return report_of(tests, withheld=withheld, findings=claims, simulated=False)


@pytest.fixture
def hostile() -> Report:
    """A report whose every text would be markup, if it were let."""
    tests = [
        result("Device", HOSTILE, Verdict.FAIL, evidence=f"{HOSTILE * 400}\n{'```' * 3}\n{HOSTILE}", advice=HOSTILE),
        result("Device", "x" * 600, Verdict.UNKNOWN, evidence="y" * 900, parameters=HOSTILE),
        result("Device", "all | is `well`", Verdict.TIMEOUT, evidence=HOSTILE),
    ]
    tests.append(result("Device", "a view", Verdict.NOT_RUN, evidence=HOSTILE))
    return report_of(tests, name=HOSTILE, withheld={"C1": [HOSTILE]})
