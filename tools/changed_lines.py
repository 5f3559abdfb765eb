"""Change lines of the core and the backends, one at a time, and say which changes the tests notice.

``python -m tools.changed_lines draw SEED`` draws a hundred changes of cosmic-ray's. ``reach`` runs all tests once, and
records which of them come to each line. ``try`` makes one change after another and runs the tests that come to its
line, and then the files that these are in, until one fails or two minutes have passed. ``tell`` lists the outcomes. All
is kept in ``changed-lines/``, so that what was stopped goes on. To compare two commits, draw once and hand the file
``changes.json`` on: a change is found by its line and the lines around it, in its file or, if it moved, in another.
``reach`` and ``try`` write into the checkout, which has to be clean and is so afterwards.
"""

from __future__ import annotations

import ast
import json
import os
import random
import signal
import subprocess
import sys
import sysconfig
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from typing import Any

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "changed-lines"
LIMIT = 120.0
"""Seconds that the tests of one change may take."""

_PRODUCT = ("core", "backends")
_OWN_DISTRIBUTIONS = ("backends/npu/tests", "backends/xpu/tests")
_MARKED = "northbridge_marked_lines"
_PLUGIN = Template("""\
import os

_outermost = "PYTEST_CHANGED_LINES" not in os.environ
_simulates = os.environ.get("NORTHBRIDGE_SIMULATE", "")
_seen = set()


def _keep(file, *facts):
    with open(file, "a") as kept:
        kept.write("\\t".join(facts) + "\\n")


def reach(number):
    seen = os.getpid(), number, os.environ.get("PYTEST_CHANGED_LINES", "")
    if seen not in _seen:
        _seen.add(seen)
        _keep("$reached", str(number), seen[2])


def pytest_runtest_logstart(nodeid):
    if _outermost:
        os.environ["PYTEST_CHANGED_LINES"] = _simulates + " " + nodeid


def pytest_runtest_logreport(report):
    if _outermost:
        _keep("$seconds", _simulates + " " + report.nodeid, str(report.duration))
""")
"""What a run of all tests imports to record a line, and has as a plugin; a suite in a test records for that test."""


@dataclass(frozen=True)
class Change:
    """A line of a file, and what becomes of it."""

    number: int
    file: str
    above: str
    line: str
    below: str
    becomes: str

    def find(self, root: Path) -> tuple[Path, int] | None:
        """Return the file and the place of the line, from 0; None where it is gone or two places are alike."""
        for path in (root / self.file, *_sources(root)):
            lines = ["", *path.read_text().splitlines(), ""] if path.exists() else []
            alike = Counter(
                {
                    place - 1: (lines[place - 1].strip() == self.above.strip())
                    + (lines[place + 1].strip() == self.below.strip())
                    for place, line in enumerate(lines)
                    if line.strip() == self.line.strip()
                }
            ).most_common(2)
            if alike and alike[0][1] > sum(likeness for _, likeness in alike[1:]):
                return path, alike[0][0]
        return None


def draw(seed: int, root: Path, number: int = 100) -> list[Change]:
    """Return so many changes, no two of one line and none of an annotation; a file's share is that of its lines."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    choose, files = random.Random(seed), list(_sources(root))
    sizes = [path.read_text().count("\n") for path in files]
    operators = [made() for name in operator_names() if not (made := get_operator(name)).arguments()]
    drawn: dict[tuple[Path, int], Change] = {}
    while len(drawn) < number:
        path, operator = choose.choices(files, sizes)[0], choose.choice(operators)
        code = path.read_text()
        count = sum(1 for node in ast_nodes(get_ast(code)) for _ in operator.mutation_positions(node))
        changed = mutate_code(code, operator, choose.randrange(count)) if count else None
        if changed is None or not _runs_otherwise(code, changed):
            continue
        before, after = code.splitlines(), changed.splitlines()
        differing = [place for place, (old, new) in enumerate(zip(before, after, strict=False)) if old != new]
        if len(before) == len(after) and len(differing) == 1 and (path, place := differing[0]) not in drawn:
            around = ["", *before, ""]
            drawn[path, place] = Change(
                len(drawn),
                str(path.relative_to(root)),
                above=around[place],
                line=before[place],
                below=around[place + 2],
                becomes=after[place],
            )
    return list(drawn.values())


def _runs_otherwise(code: str, changed: str) -> bool:
    try:
        return len({ast.dump(_Untyped().visit(ast.parse(each))) for each in (code, changed)}) == 2
    except SyntaxError:
        return False


class _Untyped(ast.NodeTransformer):
    def visit(self, node: ast.AST) -> Any:
        for name in ("annotation", "returns"):
            if hasattr(node, name):
                setattr(node, name, ast.Constant(None))
        return self.generic_visit(node)


def _sources(root: Path) -> Iterator[Path]:
    for folder in _PRODUCT:
        yield from (path for path in sorted((root / folder).rglob("*.py")) if "tests" not in path.parts)


def reach(changes: Sequence[Change], command: Sequence[str]) -> None:
    """Run all tests by ``command``, and record which of them come to each line that is to change, and their seconds."""
    files = {name: KEPT / f"{name}.tsv" for name in ("reached", "seconds")}
    for file in files.values():
        file.write_text("")
    plugin = Path(sysconfig.get_path("purelib"), f"{_MARKED}.py")
    plugin.write_text(_PLUGIN.substitute(files))
    try:
        with _checkout():
            places = [(change.number, place) for change in changes if (place := change.find(ROOT))]
            for path in {path for _, (path, _) in places}:
                code = path.read_text()
                marks = [(place, number) for number, (file, place) in places if file == path]
                path.write_text(mark(code, marks))
            subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTEST_ADDOPTS": f"-p {_MARKED}"}, check=False)
    finally:
        plugin.unlink()


def mark(code: str, marks: Sequence[tuple[int, int]]) -> str:
    """Return ``code`` with a call before the statement of each line, from 0, that records the number beside it."""
    lines = code.splitlines(keepends=True)
    for place, number in sorted(((_statement(code, place), number) for place, number in marks), reverse=True):
        indent = lines[place][: -len(lines[place].lstrip())]
        lines.insert(place, f'{indent}__import__("{_MARKED}").reach({number})\n')
    return "".join(lines)


def _statement(code: str, place: int) -> int:
    """Return the first line, from 0, of the innermost statement around ``place`` before which another can stand."""
    lines, found = code.splitlines(), 0
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.stmt) and not lines[node.lineno - 1].lstrip().startswith("elif"):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            stands_first = not lines[node.lineno - 1][: node.col_offset].strip()
            if stands_first and first <= place + 1 <= (node.end_lineno or 0):
                found = max(found, first - 1)
    return found


@dataclass(frozen=True)
class Reached:
    """Which tests came to each line, and how long each test took; a test is what is simulated, and pytest's id."""

    tests: Mapping[int, set[str]]
    seconds: Mapping[str, float]

    @classmethod
    def read(cls, folder: Path) -> Reached:
        """Read what :func:`reach` kept."""
        tests, seconds = defaultdict[int, set[str]](set), defaultdict[str, float](float)
        for line in (folder / "reached.tsv").read_text().splitlines():
            number, test = line.split("\t")
            tests[int(number)] |= {test} if test else set()
        for line in (folder / "seconds.tsv").read_text().splitlines():
            test, duration = line.split("\t")
            seconds[test] += float(duration)
        return cls(tests, seconds)

    def runs(self, number: int) -> Iterator[tuple[str, list[str]]]:
        """Yield the runs for a line, the short ones first: what is simulated, and the tests or files of one pytest."""
        tests = sorted(self.tests.get(number, ()), key=lambda test: self.seconds.get(test, 0))
        for chosen in (tests, list(dict.fromkeys(test.partition("::")[0] for test in tests))):
            runs = defaultdict[tuple[str, bool], list[str]](list)
            for test in chosen:
                simulates, _, name = test.partition(" ")
                runs[simulates, name.startswith(_OWN_DISTRIBUTIONS)].append(name)
            yield from (
                (simulates, names) for (simulates, _), names in sorted(runs.items(), key=lambda run: len(run[1]))
            )


def try_all(changes: Sequence[Change], reached: Reached) -> None:
    """Make each change that has no outcome yet, and keep what its tests say."""
    results = KEPT / "results.jsonl"
    known = {each["number"] for each in _read(results)}
    for change in (change for change in changes if change.number not in known):
        began, place = time.monotonic(), change.find(ROOT)
        if place is None:
            outcome = "gone"
        else:
            with _checkout():
                lines = place[0].read_text().splitlines(keepends=True)
                indent = lines[place[1]][: -len(lines[place[1]].lstrip())]
                lines[place[1]] = f"{indent}{change.becomes.strip()}\n"
                place[0].write_text("".join(lines))
                outcome = _find_failing(reached.runs(change.number))
        result = {**asdict(change), "outcome": outcome, "seconds": round(time.monotonic() - began)}
        with results.open("a") as kept:
            kept.write(json.dumps(result) + "\n")
        print(_describe(result), flush=True)


def _find_failing(runs: Iterator[tuple[str, list[str]]]) -> str:
    began, outcome = time.monotonic(), "not reached"
    for simulates, names in runs:
        listed = KEPT / "tests.txt"
        listed.write_text("\n".join(names))
        own = ("-c", "pyproject.toml", "-p", "tests.tiers") if names[0].startswith(_OWN_DISTRIBUTIONS) else ()
        environ = {**os.environ, **({"NORTHBRIDGE_SIMULATE": simulates} if simulates else {})}
        command = (sys.executable, "-m", "pytest", "-xq", "--no-header", "-p", "no:cacheprovider", *own, f"@{listed}")
        pytest = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = pytest.communicate(timeout=max(0.1, LIMIT - time.monotonic() + began))
        except subprocess.TimeoutExpired:
            os.killpg(pytest.pid, signal.SIGKILL)
            pytest.communicate()
            return "took too long"
        if pytest.returncode not in (0, 5):
            failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
            return f"caught by {(failed or said.splitlines() or [''])[-1][:150]}"
        outcome = "missed"
    return outcome


def _describe(result: Mapping[str, Any]) -> str:
    change = f"{result['line'].strip()} → {result['becomes'].strip()}"
    return f"{result['number']:3} {result['seconds']:4} s {result['file']}: {change}\n        {result['outcome']}"


def _read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@contextmanager
def _checkout() -> Iterator[None]:
    """Restore the product when this is left, which it was not entered with a change of."""
    git = ("git", "-C", str(ROOT))
    changed = subprocess.run(
        (*git, "status", "--porcelain", *_PRODUCT), check=True, capture_output=True, text=True
    ).stdout
    if changed:
        sys.exit(f"this checkout has changes, which would be lost. Fix: commit or discard them\n{changed}")
    try:
        yield
    finally:
        subprocess.run((*git, "checkout", "--quiet", "--", *_PRODUCT), check=True)


def main(step: str, *arguments: str) -> None:
    """Do one of the four steps."""
    KEPT.mkdir(exist_ok=True)
    file = KEPT / "changes.json"
    if step == "draw":
        file.write_text(json.dumps([asdict(change) for change in draw(int(arguments[0]), ROOT)], indent=1))
        return
    changes = [Change(**each) for each in json.loads(file.read_text())]
    if step == "reach":
        reach(changes, (sys.executable, "-m", "tests", "full"))
    elif step == "try":
        try_all(changes, Reached.read(KEPT))
    else:
        results = _read(KEPT / "results.jsonl")
        print("\n".join(map(_describe, results)))
        print(Counter(each["outcome"].partition(" by ")[0] for each in results))


if __name__ == "__main__":
    main(*sys.argv[1:])
