"""The pages that people read, and the samples in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*.md")))
}

_FENCE = re.compile(r"^```(?P<kind>\w*)[^\n]*\n(?P<body>.*?)^```$", flags=re.M | re.S)


@dataclass(frozen=True)
class Sample:
    """One fenced block of code, and the block of text right below it, which shows what it prints or raises."""

    kind: str
    line: int
    code: str
    shown: str = ""


def samples(page: str, kind: str) -> list[Sample]:
    """Return the samples of ``page`` whose fence says ``kind``, in order."""
    text = PAGES[page].read_text()
    fences = list(_FENCE.finditer(text))
    assert text.count("```") == 2 * len(fences), f"{page} has a fence that is not closed, or indented"
    found = []
    for fence, after in zip(fences, [*fences[1:], None], strict=False):
        right_below = after is not None and after["kind"] == "text" and not text[fence.end() : after.start()].strip()
        shown = after["body"] if after is not None and right_below else ""
        line = text.count("\n", 0, fence.start()) + 2
        found.append(Sample(fence["kind"], line, fence["body"], shown))
    return [each for each in found if each.kind == kind]


def shows(output: str, shown: str) -> bool:
    """Return True if ``output`` matches ``shown``: line breaks may differ, and ``…`` stands for omitted text."""
    rest = " ".join(output.split())
    for part in (" ".join(each.split()) for each in shown.split("…")):
        if part not in rest:
            return False
        rest = rest[rest.index(part) + len(part) :]
    return True


def write_parts(page: Path, *parts: str) -> None:
    """Replace what stands between each ``<!-- written -->`` of a page and its ``<!-- end -->``."""
    texts = iter(parts)
    between = re.compile(r"(?<=<!-- written -->\n).*?(?=<!-- end -->)", flags=re.S)
    page.write_text(between.sub(lambda _: f"\n{next(texts)}\n\n", page.read_text()))
