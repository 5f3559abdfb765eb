"""The page of the documentation that shows the last run."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.zoo.launch import CHIPS
from tests.zoo.models import ZOO
from tests.zoo.verdict import DEVICES, EQUAL, RULES, Verdict

PAGE = Path(__file__).parents[2] / "docs" / "reports" / "zoo.md"

_BEGIN = """# Models that people train

`make zoo` trains models of packages on the index with `Trainer`, each a few steps, on the simulated chips and on
the CPU. It compares the losses of each step and the weights at the end. The models are made from configurations, with
random weights. No line of a package is changed. Dropout is 0, and noise comes with the batch: a chip draws other
random numbers than the CPU.

"equal" means equal to the bit, in each rank. `1` and `2` are the numbers of devices; two train with DDP.

"""

_RULES = """
## Rules

A difference for which no rule stands makes the command exit with 1. So does a rule that no training needs.

"""

_END = """
## What it found

- The models run unchanged. The packages are imported before the `Trainer`, as in scripts, and ask `torch.accelerator`.
- `accelerate` imports `torch_sdaa` where it finds it. The Teco software may thus be loaded before a `Trainer` asks for
  it. The losses are the same.
- MONAI's metrics send tensors of the CPU over every library but NCCL. With several devices `aggregate()` thus fails on
  each chip; metrics of torchmetrics work.

A sample of the models runs in `make test-all`. `python -m tests.zoo bert vit` runs these two, and writes no page.
"""


def write_page(verdicts: Sequence[Verdict], path: Path = PAGE) -> None:
    """Write the table of a whole run, and the rules."""
    found = {(each.model, each.chip, each.devices): each for each in verdicts}
    columns = [(chip, devices) for chip in CHIPS for devices in DEVICES]
    lines = [
        f"| model | packages | {' | '.join(f'`{chip}`, {devices}' for chip, devices in columns)} |",
        "|---" * (2 + len(columns)) + "|",
    ]
    for name, entry in ZOO.items():
        packages = ", ".join(f"{each} {_version(each)}" for each in entry.packages) or "torch"
        cells = [_cell(found[name, chip, devices]) for chip, devices in columns]
        lines.append(f"| `{name}`: {entry.title} | {packages} | {' | '.join(cells)} |")
    rules = [f"{number}. {rule.operation}: {rule.why}" for number, rule in enumerate(RULES, 1)]
    path.write_text(_BEGIN + "\n".join(lines) + "\n" + _RULES + "\n".join(rules) + "\n" + _END)


def _cell(verdict: Verdict) -> str:
    if verdict.rule is None:
        return EQUAL if verdict.difference == EQUAL else "**differs**"
    what = "refused" if verdict.rule.refused else "close"
    return f"{what} ([{RULES.index(verdict.rule) + 1}](#rules))"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
