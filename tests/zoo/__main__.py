"""Train models that people train, on the CPU and on the chips, and compare: `make zoo`; writes tests/zoo/models.md.

With words, only these models, and no page is written: ``python -m tests.zoo bert vit``. Exit code 1 on a difference for
which no rule stands.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from tests.docs.page import ROOT, write_parts
from tests.engines import FOLDER, READY, with_engines
from tests.scripts import run_script
from tests.zoo.models import ZOO
from tests.zoo.verdict import CHIPS, DEVICES, EQUAL, REFERENCE, RULES, Verdict, judge, unused_rules

from northbridge_conformance.runs.processes import ONE_THREAD

PAGE = Path(__file__).with_name("models.md")

APART = "vit"
"""The model whose package imports torchvision, which makes other packages fail."""

_LIMIT_S = 500.0
_AT_ONCE = 2


def train_all(names: Sequence[str], accelerators: Sequence[str], folder: Path) -> dict[str, str]:
    """Train each model of ``names`` on each accelerator, two at a time; return what the failed launches said."""
    groups = [[each for each in names if (each == APART) is apart] for apart in (True, False)]
    groups = [group for group in groups if group]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        said = {
            f"{accelerator}: {', '.join(group)}": pool.submit(_train, group, accelerator, folder)
            for accelerator in accelerators
            for group in groups
        }
        return {launch: each.result() for launch, each in said.items() if each.result()}


def _train(names: Sequence[str], accelerator: str, folder: Path) -> str:
    """Return nothing, or the end of what a launch said that failed."""
    results = folder / accelerator
    results.mkdir(parents=True, exist_ok=True)
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environ = with_engines({**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(path)})
    for name in ("NORTHBRIDGE_SIMULATE", "SHORT_PROCESS"):  # diffusers needs pillow, which a short process hides
        environ.pop(name, None)
    if accelerator in CHIPS[1:]:
        environ["NORTHBRIDGE_SIMULATE"] = accelerator
    if accelerator == "hpu":
        server = results / "server"
        server.mkdir(exist_ok=True)
        environ["NORTHBRIDGE_HPU_SIM_SERVER"] = str(server)
    # Two at a time: what each prints stands in a folder of its own.
    said = results / "said" / names[0]
    said.mkdir(parents=True, exist_ok=True)
    train = Path(__file__).with_name("train.py")
    ran = run_script(train, accelerator, str(results), *names, folder=said, environ=environ, limit=_LIMIT_S)
    return "" if ran.status == 0 else f"exit code {ran.status}: {ran.said[-20000:]}"


def parts(verdicts: Sequence[Verdict]) -> tuple[str, str]:
    """Return what the page shows of a whole run: the table, and the rules."""
    found = {(each.model, each.chip, each.devices): each for each in verdicts}
    columns = [(chip, devices) for chip in CHIPS for devices in DEVICES]
    lines = [
        f"| model | packages | {' | '.join(f'`{chip}`, {devices}' for chip, devices in columns)} |",
        "|---" * (2 + len(columns)) + "|",
    ]
    for name, entry in ZOO.items():
        packages = ", ".join(f"{each} {version(each)}" for each in entry.packages) or "torch"
        cells = [_cell(found[name, chip, devices]) for chip, devices in columns]
        lines.append(f"| `{name}`: {entry.title} | {packages} | {' | '.join(cells)} |")
    rules = [f"{number}. {rule.operation}: {rule.why}" for number, rule in enumerate(RULES, 1)]
    return "\n".join(lines), "\n".join(rules)


def _cell(verdict: Verdict) -> str:
    if verdict.rule is None:
        return EQUAL if verdict.difference == EQUAL else "**differs**"
    what = "refused" if verdict.rule.refused else "close"
    return f"{what} ([{RULES.index(verdict.rule) + 1}](#rules))"


def main(words: list[str]) -> int:
    """Train them, and return 1 where something is wrong."""
    names = words or list(ZOO)
    unknown = sorted(set(names) - set(ZOO))
    if unknown or not READY.exists():
        print(f"make zoo: unknown: {unknown}; known: {', '.join(ZOO)}" if unknown else "make zoo: first make engines")
        return 2
    sys.path.append(str(FOLDER))  # its versions, for the page
    began = time.monotonic()
    print(f"make zoo: {len(names)} models on {REFERENCE}, {', '.join(CHIPS)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="northbridge-zoo-") as folder:
        failed = train_all(names, (REFERENCE, *CHIPS), Path(folder))
        verdicts = [judge(name, chip, devices, Path(folder)) for name in names for chip in CHIPS for devices in DEVICES]
    for verdict in verdicts:
        rule = f" (a rule stands: {verdict.rule.operation})" if verdict.rule else ""
        print(f"{verdict}{rule}")
    wrong = [f"{launch}: {said}" for launch, said in failed.items()]
    wrong += [str(verdict) for verdict in verdicts if verdict.is_wrong]
    if not words:
        wrong += unused_rules(verdicts)
        write_parts(PAGE, *parts(verdicts))
    print(f"make zoo: {len(verdicts)} trainings compared; {len(wrong)} complaints; {time.monotonic() - began:.0f} s")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
