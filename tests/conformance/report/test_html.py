"""A report as a page and as Markdown, as their sources say it; test_browser.py looks at the page in a browser."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from itertools import pairwise
from typing import get_args
from xml.etree import ElementTree

import pytest
from tests.conformance.report.conftest import report_of, result
from tests.report_page import Page, find_broken_links

import northbridge
from northbridge.capabilities import LEVEL_CLAIMS, Capabilities
from northbridge_conformance.report import overview
from northbridge_conformance.report.badge import render_badge
from northbridge_conformance.report.failure import say_plainly
from northbridge_conformance.report.html import render_page
from northbridge_conformance.report.markdown import render_markdown
from northbridge_conformance.report.overview import (
    count_operators,
    count_run,
    count_verdicts,
    explain_level,
    group_claims,
    list_doubts,
    list_silent_errors,
    name_level,
    repeat,
    show_memory,
    show_moment,
    show_seconds,
)
from northbridge_conformance.report.report import NOT_ASKED, ClaimResult, Report
from northbridge_conformance.verdict import Ending, Figure, Verdict


@pytest.fixture(params=["one report", "three side by side"])
def source(request: pytest.FixtureRequest, good: Report, mixed: Report, hostile: Report) -> str:
    """The source of a page of each kind, of the worst text there is."""
    return render_page(hostile) if request.param == "one report" else render_page(good, mixed, hostile)


def test_it_asks_nothing_of_the_network(source: str) -> None:
    """The browser may run the page's own script only."""
    page = Page(source)

    assert find_broken_links(source) == []
    assert not re.search(r"url\(|@import", "".join(page.raw["style"]))
    assert not re.search(r"fetch|XMLHttpRequest|import\(|WebSocket", "".join(page.raw["script"]))
    (script,) = page.raw["script"]
    (policy,) = [value for value in page.attributes("content") if "script-src" in value]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def test_hostile_text_is_text(source: str) -> None:
    page = Page(source)

    assert "</script><script>document.title='owned'</script>" in page.text
    assert len(page.raw["script"]) == 1
    assert "img" not in {tag for tag, _ in page.elements}
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert not re.search("[\x00\x1b\u202e]", source)


def test_a_screen_reader_finds_its_way(source: str) -> None:
    page = Page(source)
    headings = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]

    assert ("html", {"lang": "en"}) in page.elements
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))
    assert {tag for tag, _ in page.elements} >= {"header", "main", "label", "legend", "output"}
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert set(page.attributes("aria-labelledby")) | set(page.attributes("for")) <= set(ids)
    assert "words" in page.attributes("for")  # the label of the box


SAYS: dict[str, tuple[str, ...]] = {
    "good": (
        r"Level\s+Simulated Acme X100 has level C3: several devices train together\s+Each collective",
        r"Software\s+driver 7\.1, python 3\.11\.9, torch 2\.13\.0, lightning 2\.6\.6, [\w-]+ 1\.2\s+Repeat it",
        r"NORTHBRIDGE_SIMULATE=acme northbridge conformance acme --level C3",
        r"Proved\s+17\s+claimed[\w ,:-]+\s+✓\s+float32 is computed as float32\s+float32\s+✓",
        r"–\s+linear layers are trained in float8\s+float8",
        "Nothing is claimed about a real one",
        r"352\s+of 352 ran\s+PASS\s+352",
        r"17\s+proved\s+2\s+refused\s+17\s+unknown",
    ),
    "mixed": (
        r"Why not C1\s+1 test of it did not pass: C1/Operations/",
        "Not simulated: it ran on the device itself",
        r"False\s+1\s+what the backend says is wrong: do not rely on it\s+✗\s+[\w ,]+\s+float16",
        r"Hidden\s+1\s+the backend says no, yet it works: the vendor has not promised it\s+!\s+[\w ]+\s+bfloat16",
        r"Not tested\s+1\s+no test that ran here shows it[\w :,']+\s+·\s+processes wait for each other\s+barrier",
        r"0.25 s\s+a view of a view has its own memory found \[0, 1\], expected \[0, 7\]\s+Repeat it",
        r"a barrier waits.*?rank 1: File collective.py, line 40, in barrier\s+Repeat it:",
        r"conformance acme --level C3 --only C3/Collective/test_a_barrier_waits\s+What to do:",
    ),
    "partial": (
        r"A silent error of the chip: an operation on one of its tensors and one of the CPU's",
        r"Operators\s+2 denied, 1 loosened, of torch's, by the backend",
    ),
    "nothing": ("Acme X100 has no level", r"Why not C0\s+C0/Plugin/test_the_hook_returns_a_backend: FAIL"),
    "good mixed": (
        r"They differ\s+8",
        r"bf16 trains\s+C2/Training/test_bf16_trains\s+absent\s+UNDERCLAIM\s+Evidence",
        r"Level granted\s+C3 \(simulated\)\s+C0",
        r"tensors and mixed precision in bfloat16\s+bfloat16\s+\? unknown\s+! hidden",
    ),
}


@pytest.mark.parametrize("reports", SAYS)
def test_page_says(request: pytest.FixtureRequest, reports: str) -> None:
    text = Page(render_page(*map(request.getfixturevalue, reports.split()))).text

    assert [words for words in SAYS[reports] if not re.search(words, text)] == []
    assert ("Why not" in text) == (reports in ("mixed", "nothing"))


def test_a_report_without_a_device_says_so(mixed: Report) -> None:
    without = mixed.model_copy(update={"backend": mixed.backend.model_copy(update={"devices": 0, "label": ""})})

    page, compared = Page(render_page(without)).text, Page(render_page(without, mixed)).text

    assert "no device here · northbridge-acme 1.2" in page
    assert "acme has level C0:" in page
    assert "Not simulated: no device was here, and nothing ran on one." in page
    assert "the device itself" not in page
    assert re.search(r"Device\s+no device\s+4 × Acme X100", compared)
    assert "northbridge-acme 1.2, no device, " in render_markdown(without)


def test_a_chip_without_a_library_says_so(mixed: Report) -> None:
    alone = mixed.model_copy(update={"backend": mixed.backend.model_copy(update={"collective": ""})})

    assert re.search(r"device type\s+acme\s*,\s+no communication library", Page(render_page(alone)).text)
    assert re.search(r"device type\s+acme\s*,\s+collective\s+acmeccl", Page(render_page(mixed)).text)


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FAIL])
def test_figures_have_bound_gate_and_margin(verdict: Verdict) -> None:
    figures = (
        Figure(name="gradient of weight", found=2e-6, bound=8e-6, gate=1e-6),
        Figure(name="gradient norm", found=0.0, bound=8e-6, gate=0.0),
    )
    test = result("Collective", "the first step", verdict).model_copy(update={"figures": figures})

    text = Page(render_page(report_of([test]))).text

    assert re.search(r"Figure\s+Distance\s+Bound\s+Gate\s+Margin", text)
    assert re.search(r"gradient of weight\s+2e-06\s+8e-06\s+1e-06\s+× 4", text)
    assert re.search(r"gradient norm\s+0\s+8e-06\s+0\s+exact", text)
    assert "gradient of weight" not in Page(render_page(report_of([result("Collective", "the first step")]))).text


def test_long_evidence_is_folded_and_shown_once(good: Report, mixed: Report) -> None:
    """Tests that one reason forbids are told together."""
    source = render_page(mixed)
    reason = "it needs 4 devices of acme, and this machine has 2"
    tests = [result("Collective", f"sum {number}", Verdict.NOT_RUN, evidence=reason) for number in range(30)]
    text = Page(render_page(report_of(tests))).text

    verdicts = Page(source).attributes("data-verdict")  # those first that need somebody
    assert list(dict.fromkeys(verdicts)) == ["FAIL", "TIMEOUT", "UNDERCLAIM", "NOT RUN", "UNKNOWN", "PASS"]
    assert len(verdicts) == len(mixed.tests)
    assert Page(render_page(good, mixed)).attributes("data-verdict")[0] == "absent|FAIL"
    assert source.count("step 17 of a long test") == 1
    assert "All 33 lines of evidence" in source
    assert re.search(r'The same evidence as <a href="#test-\d+">a view of a view</a>', source)
    assert text.count(reason) == 1
    assert "30 tests" in text


def test_untrusted_reports_and_different_suites_are_warned_of(good: Report) -> None:
    """And no report makes no page."""
    untrusted = Page(render_page(good.model_copy(update={"seconds": 1.0}))).text
    text = Page(render_page(good, report_of([], name="other", sources="0ddba11"))).text

    assert untrusted.index("Do not trust this report.") < untrusted.index("has level C3")
    assert "Read with care. These reports are of different suites" in re.sub(" +", " ", text)
    with pytest.raises(northbridge.ReportError, match="found 0"):
        render_page()


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ("    step()\nE   AssertionError: no\nE   assert 1 == 2\n\nfile.py:3", "no\nfound 1, expected 2"),
        ("E   AssertionError: assert '3' == '4'\nE     \nE     - 4\nE     + 3", "found '3', expected '4'"),
        (
            "    assert any(\n        near(each)\n    )\nE   assert False\nE    +  where",
            "this does not hold: any( near(each) )",
        ),
        ("E   assert 3 in [1, 2]", "this does not hold: 3 in [1, 2]"),
        ("E   a.b.ChipError: it is lost", "ChipError: it is lost"),
        (f"E   OSError: {'x' * 300}", f"OSError: {'x' * 231}…"),
        ("it was killed:\n" + "frame\n" * 30 + "the last\n", "it was killed:\n…\n" + "frame\n" * 5 + "the last"),
        (" assert a\n" * 100_000 + "E   OSError: it is lost", "OSError: it is lost"),
        ("", ""),
    ],
    ids=["steps", "texts", "lines", "membership", "module", "long", "unmarked", "hostile", "empty"],
)
def test_failure_is_said_plainly(evidence: str, words: str) -> None:
    """Without pytest's frames; evidence that pytest has not marked keeps its beginning and its end."""
    assert say_plainly(evidence) == words


@pytest.mark.parametrize(
    ("report", "said"),
    [("good", "C3 (simulated)"), ("mixed", "C0"), ("nothing", "No level granted"), ("partial", "C3")],
)
def test_badge_shows_the_level_offline(request: pytest.FixtureRequest, report: str, said: str) -> None:
    badge = render_badge(request.getfixturevalue(report))

    root = ElementTree.fromstring(badge)
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["Northbridge", said]
    assert badge.count("http") == 1  # the namespace
    assert "href" not in badge


def test_command_that_repeats_is_quoted(hostile: Report) -> None:
    words = shlex.split(repeat(hostile, hostile.tests[0]))

    assert words[1:4] == ["northbridge", "conformance", hostile.backend.name]
    assert words[-2:] == ["--only", hostile.tests[0].id]


def test_it_begins_with_the_level(good: Report, nothing: Report) -> None:
    assert render_markdown(good).startswith(
        "# Simulated Acme X100: C3 (simulated)\n\nSeveral devices train together. Each"
    )
    assert "Nothing is claimed about a real one" in render_markdown(good)
    assert render_markdown(nothing).startswith("# Acme X100: No level granted\n")
    assert "Nothing is claimed about a real one" not in render_markdown(nothing)
    assert "Rely only on" in explain_level(nothing)
    left_out = good.tests[0].model_copy(update={"verdict": Verdict.NOT_RUN, "evidence": NOT_ASKED})
    part = good.model_copy(update={"tests": (left_out, *good.tests[1:])}).sealed()
    assert name_level(part) == "A part of the suite"
    assert "Run the suite without --only" in explain_level(part)


def test_first_lines_tell_of_operators_and_silent_errors(partial: Report, good: Report) -> None:
    first = render_markdown(partial).partition("## Levels")[0]

    assert " Operators of torch: 2 denied, 1 loosened. " in first
    assert "> **A silent error of the chip: an operation on one of its tensors" in first
    assert count_operators(good) == ""
    assert list_silent_errors(good) == []


def test_it_has_each_claim_and_level_and_what_did_not_pass(mixed: Report) -> None:
    page = render_markdown(mixed)

    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| \S ([\w ]+) \|", page, flags=re.M)
    assert {name for name, _, _ in rows} == set(mixed.claims)
    assert {("float16", "yes", "false"), ("bfloat16", "no", "hidden")} <= {*rows}
    assert re.search(r"^\| C3 Several devices \| no \| 210 \| barrier is not proved: TIMEOUT; ", page, re.M)
    titles = re.findall(r"^### ([A-Z ]+): ", page, flags=re.M)
    assert titles == ["FAIL"] * 4 + ["TIMEOUT", "UNDERCLAIM", "NOT RUN"]
    repeated = "`northbridge conformance acme --level C2 --only C2/Training/test_fp16_scales_its_gradients`"
    scaled = f"```text\nfound 1.0, expected 65536.0\n```\n\nRepeat it: {repeated}\n\nWhat to do: See that the gradient"
    assert scaled in page


def test_hostile_text_is_not_markup(hostile: Report) -> None:
    page = render_markdown(hostile)

    # What is fenced or quoted as code is text; of what is not, no bracket opens a tag and no bar a cell.
    (fence,) = re.findall(r"^(`{4,})text$", page, flags=re.M)
    assert len(fence) > 9  # the evidence holds nine
    prose = re.sub(r"^(`{3,})text\n.*?^\1$", "", page, flags=re.M | re.S)
    prose = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", prose)
    assert not re.search(r"(?<!\\)<", prose)
    assert "all \\| is \\`well\\`" in page
    assert "\x1b" not in page


def test_what_is_too_long_for_an_issue_is_left_out_and_counted(mixed: Report) -> None:
    failing = [
        test.model_copy(
            update={"verdict": Verdict.FAIL, "ending": Ending.FAILED, "evidence": f"E  {'wrong' * 40}\n" * 300}
        )
        for test in mixed.tests
    ]

    page = render_markdown(mixed.model_copy(update={"tests": tuple(failing)}))

    shown = page.count("### FAIL")
    assert 0 < shown < len(failing)
    assert f"{len(failing) - shown} more did not pass; they are in `index.html`" in page
    assert len(page) < 65536


def test_verdicts_are_counted_and_claims_are_grouped(mixed: Report) -> None:
    """Those first that need somebody."""
    counts, groups = count_verdicts(mixed), group_claims(mixed)

    assert [verdict.value for verdict in counts] == ["FAIL", "TIMEOUT", "UNDERCLAIM", "NOT RUN", "UNKNOWN", "PASS"]
    assert [*counts.values()][:5] == [4, 1, 1, 1, 1]
    assert count_run(mixed) == len(mixed.tests) - counts[Verdict.NOT_RUN]
    assert (groups["false"], groups["hidden"], groups["refused"]) == (["float16"], ["bfloat16"], ["float8"])
    assert sum(map(len, groups.values())) == len(mixed.claims)


def test_changed_incomplete_and_spared_reports_are_doubted(good: Report) -> None:
    spared = good.suite.model_copy(update={"options_off": ("STREAMS=immediate, and not deferred",)})
    (changed,) = list_doubts(good.model_copy(update={"seconds": 1.0}))
    (cut,) = list_doubts(good.model_copy(update={"tests": good.tests[1:]}).sealed())
    (forgiven,) = list_doubts(good.model_copy(update={"suite": spared}).sealed())

    assert list_doubts(good) == []
    assert changed.startswith("The report was changed after it was written")
    assert f"1 of {len(good.tests)} tests are missing, such as {good.tests[0].id}" in cut
    assert forgiven == (
        "The simulated chip ran without strict options (STREAMS=immediate, and not deferred): what it forgave,"
        " a real one may not."
    )


def test_everything_that_a_report_says_is_explained() -> None:
    assert list(overview.LEVELS) == list(LEVEL_CLAIMS)
    assert set(overview.VERDICTS) == set(Verdict)
    assert set(overview.CLAIMS) == set(get_args(ClaimResult.model_fields["finding"].annotation))
    assert set(overview.CLAIMED) == set(Capabilities().claims())
    assert all(overview.CLAIMED.values())


def test_durations_memory_and_moments() -> None:
    shown = [show_seconds(each) for each in (0.018, 14.4, 119.6, 200.2)]
    assert shown == ["0.02 s", "14 s", "2 min 0 s", "3 min 20 s"]
    assert show_memory(8 * 2**30) == "8.0 GiB"
    assert show_moment("2026-11-24T20:40:45.123+00:00") == "2026-11-24 20:40 UTC"
