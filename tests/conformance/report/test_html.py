"""The page of a report, as its source says it; test_browser.py looks at it in a browser."""

from __future__ import annotations

import base64
import hashlib
import re
from itertools import pairwise

import pytest
from tests.conformance.report.conftest import report_of, result
from tests.report_page import Page, find_broken_links

import northbridge
from northbridge_conformance.report.html import choose_excerpt, is_long, render_page
from northbridge_conformance.report.markdown import render_markdown
from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Figure, Verdict


@pytest.fixture(params=["one report", "three side by side"])
def source(request: pytest.FixtureRequest, good: Report, mixed: Report, hostile: Report) -> str:
    """The source of a page of each kind, of the worst text there is."""
    return render_page(hostile) if request.param == "one report" else render_page(good, mixed, hostile)


def test_it_asks_nothing_of_the_network(source: str) -> None:
    page = Page(source)

    assert find_broken_links(source) == []
    assert not re.search(r"url\(|@import", "".join(page.raw["style"]))
    assert not re.search(r"fetch|XMLHttpRequest|import\(|WebSocket", "".join(page.raw["script"]))


def test_browser_may_run_the_pages_own_script_only(source: str) -> None:
    page = Page(source)

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


def test_ids_are_unique_and_links_lead_to_one(source: str) -> None:
    page = Page(source)

    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert find_broken_links(source) == []
    assert set(page.attributes("aria-labelledby")) | set(page.attributes("for")) <= set(ids)


def test_a_link_that_leads_nowhere_or_away_is_found() -> None:
    page = (
        '<link rel="icon" href="data:,"><h1 id="top"><a href="#top"></a><a href="#gone"></a></h1>'
        '<img src="data:image/gif;base64,R0lG"><img src="https://elsewhere.example/x.png"><form action="/ask"></form>'
    )

    assert find_broken_links(page) == ["#gone", "data:image/gif;base64,R0lG", "https://elsewhere.example/x.png", "/ask"]


def test_a_screen_reader_finds_its_way(source: str) -> None:
    page = Page(source)
    headings = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]

    assert ("html", {"lang": "en"}) in page.elements
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))
    assert {tag for tag, _ in page.elements} >= {"header", "main", "label", "legend", "output"}
    assert "words" in page.attributes("for")  # the label of the box


SAYS: dict[str, tuple[str, ...]] = {
    "good": (
        r"Level granted\s+C3 \(simulated\)\s+Several devices train together",
        "Nothing is claimed about a real one",
        r"352\s+of 352 ran\s+PASS\s+352",
        r"17\s+proved\s+2\s+refused\s+17\s+unknown",
    ),
    "mixed": (
        r"Why not C1\s+1 test of it did not pass: C1/Operations/",
        "Not simulated: it ran on the device itself",
        r"False\s+1\s+what the backend says is wrong: do not rely on it\s+float16",
        r"Hidden\s+1\s+the backend says no, yet it works: the vendor has not promised it\s+bfloat16",
        r"Not tested\s+1\s+no test that ran here shows it[\w :,']+\s+barrier",
        r"a barrier waits.*?rank 1: File collective.py, line 40, in barrier\s+What to do:",
    ),
    "partial": (
        r"A silent error of the chip: an operation on one of its tensors and one of the CPU's",
        r"Operators\s+2 denied, 1 loosened, of torch's, by the backend",
    ),
    "nothing": ("No level granted", r"Why not C0\s+C0/Plugin/test_the_hook_returns_a_backend: FAIL"),
    "good mixed": (
        r"They differ\s+8",
        r"bf16 trains\s+C2/Training/test_bf16_trains\s+absent\s+UNDERCLAIM\s+Evidence",
        r"Level granted\s+C3 \(simulated\)\s+C0",
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
    assert "Not simulated: no device was here, and nothing ran on one." in page
    assert "the device itself" not in page
    assert re.search(r"Device\s+no device\s+4 × Acme X100", compared)
    assert "northbridge-acme 1.2, no device, " in render_markdown(without)


def test_what_needs_somebody_comes_first(good: Report, mixed: Report) -> None:
    verdicts = Page(render_page(mixed)).attributes("data-verdict")

    assert list(dict.fromkeys(verdicts)) == ["FAIL", "TIMEOUT", "UNDERCLAIM", "NOT RUN", "UNKNOWN", "PASS"]
    assert len(verdicts) == len(mixed.tests)
    assert Page(render_page(good, mixed)).attributes("data-verdict")[0] == "absent|FAIL"


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FAIL, Verdict.VOID])
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


def test_long_evidence_is_folded_and_shown_once(mixed: Report) -> None:
    source = render_page(mixed)

    assert source.count("step 17 of a long test") == 1
    assert "All 33 lines of evidence" in source
    assert re.search(r'The same evidence as <a href="#test-\d+">a view of a view</a>', source)


def test_tests_that_one_reason_forbids_are_told_together() -> None:
    reason = "it needs 4 devices of acme, and this machine has 2"
    tests = [result("Collective", f"sum {number}", Verdict.NOT_RUN, evidence=reason) for number in range(30)]

    text = Page(render_page(report_of(tests))).text

    assert text.count(reason) == 1
    assert "30 tests" in text


def test_untrusted_report_says_so_before_its_level(good: Report) -> None:
    text = Page(render_page(good.model_copy(update={"seconds": 1.0}))).text

    assert text.index("Do not trust this report.") < text.index("Level granted")


def test_side_by_side_different_suites_are_warned_of(good: Report) -> None:
    text = Page(render_page(good, report_of([], name="other", sources="0ddba11"))).text

    assert "Read with care. These reports are of different suites" in re.sub(" +", " ", text)


def test_a_page_of_no_report_is_refused() -> None:
    with pytest.raises(northbridge.ReportError, match="found 0"):
        render_page()


def test_the_excerpt_is_what_pytest_marks_or_the_end() -> None:
    traceback = "def test():\n" + "    step()\n" * 50 + "E  AssertionError: no\nE  assert 1 == 2\n\nfile.py:3"
    stacks = "\n".join(f"frame {number}" for number in range(100))

    assert choose_excerpt(traceback) == "E  AssertionError: no\nE  assert 1 == 2"
    assert choose_excerpt(stacks).splitlines() == [f"frame {number}" for number in range(92, 100)]
    assert [is_long(each) for each in ("line\n" * 40, "x" * 5000, "E  assert 1 == 2")] == [True, True, False]
