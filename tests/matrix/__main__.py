"""``make matrix``: train on every supported release of Lightning, and write tests/matrix/results.md.

``python -m tests.matrix --again`` runs the rows that failed on the page or are not there, and keeps the others.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
from tests.docs.page import ROOT, write_parts
from tests.forks.suite import fork_runs

from northbridge_conformance.run import run
from northbridge_conformance.runs.scenario import Scenario, reference
from northbridge_conformance.tests.lightning.precision import train_mixed
from northbridge_conformance.tests.lightning.training import train

PAGE = Path(__file__).with_name("results.md")
CACHE = ROOT / ".cache" / "matrix"

PUBLISHED = (
    "2.4.0",
    "2.5.0",
    "2.5.0.post0",
    "2.5.1",
    "2.5.1.post0",
    "2.5.2",
    "2.5.3",
    "2.5.4",
    "2.5.5",
    "2.5.6",
    "2.6.0",
    "2.6.1",
    "2.6.4",
    "2.6.5",
    "2.6.6",
)
"""Every published release from 2.4.0 to 2.6.6 but 2.6.2 and 2.6.3, which were malicious uploads."""


@dataclass(frozen=True)
class Pair:
    """One environment: the two distributions, which may differ in version."""

    lightning: str
    pytorch_lightning: str
    named: str | None = None
    """The version that both say they have, where it is another than theirs."""

    def __str__(self) -> str:
        if self.named:
            return f"{self.lightning} named {self.named}"
        if self.lightning == self.pytorch_lightning:
            return self.lightning
        return f"lightning {self.lightning}, pytorch-lightning {self.pytorch_lightning}"


OLDEST, NEWEST = Pair(PUBLISHED[0], PUBLISHED[0]), Pair(PUBLISHED[-1], PUBLISHED[-1])

PAIRS = (
    *(Pair(version, version) for version in PUBLISHED),
    Pair(PUBLISHED[0], PUBLISHED[-1]),
    Pair(PUBLISHED[-1], PUBLISHED[0]),
    Pair(PUBLISHED[-1], PUBLISHED[-1], named="2.7.0"),
)
"""Every row of the matrix. The last stands for the next minor release, of which no source can be had."""


def lay_over(pair: Pair) -> Path:
    """Return a folder that holds the two distributions and nothing else; put it on ``PYTHONPATH``.

    They are pure Python, so a few MB suffice, and what they depend on stays what ``constraints.txt`` pins.
    """
    folder = CACHE / "+".join(filter(None, (pair.lightning, pair.pytorch_lightning, pair.named)))
    done = folder / ".complete"
    if not done.exists():
        wanted = [f"lightning=={pair.lightning}", f"pytorch-lightning=={pair.pytorch_lightning}"]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(folder)]
        subprocess.run([*pip, *wanted], check=True)
        if pair.named:
            _rename(folder, pair.lightning, pair.named)
        done.touch()
    return folder


def _rename(folder: Path, version: str, named: str) -> None:
    """Let the distributions in ``folder`` say that their version is ``named``: in their metadata and when imported."""
    for information in folder.glob("*.dist-info"):
        metadata = information / "METADATA"
        metadata.write_text(metadata.read_text().replace(f"\nVersion: {version}\n", f"\nVersion: {named}\n", 1))
        information.rename(information.with_name(information.name.replace(version, named)))
    for file in folder.rglob("version.info"):
        file.write_text(f"{named}\n")


# --- The trials

CHIP = "cpu_sim"

fork_runs()


@dataclass(frozen=True)
class Trial:
    """One training on the chip.

    In float32 its weights have to equal, to the bit, those of the same training on Lightning's CPU accelerator. In
    mixed precision they need not: the chip autocasts torch's list of operators for CUDA, the CPU another. There the
    ranks have to agree, and the model to have computed in bfloat16.
    """

    title: str
    step: Callable[[Scenario, Path], None]
    namespaces: tuple[str, ...]
    devices: int
    strategy: str = "auto"
    mixed: bool = False
    by_auto: bool = False
    """True if the user writes ``accelerator="auto"``, and ``NORTHBRIDGE_SIMULATE`` names the chip."""


TRAINERS, FABRICS = ("lightning.pytorch", "pytorch_lightning"), ("lightning.fabric", "lightning_fabric")

TRIALS = (
    Trial("auto", train, TRAINERS, devices=1, by_auto=True),
    Trial("2 ranks, bf16-mixed", train_mixed, TRAINERS, devices=2, mixed=True),
    Trial("2 ranks, ddp_spawn", train, TRAINERS, devices=2, strategy="ddp_spawn"),
    Trial("Fabric, 2 ranks", train, FABRICS, devices=2),
)


def differences(pair: Pair, trial: Trial) -> list[str]:
    """Return what went wrong in ``trial`` on ``pair``, a sentence each; an empty list is a pass."""
    wrong = []
    for namespace in trial.namespaces:
        try:
            ours = _train(pair, trial, namespace, on_chip=True)
            expected = (ours if trial.mixed else _train(pair, trial, namespace, on_chip=False))[0]["weights"]
        except RuntimeError as error:
            where = "the CPU's run" if "accelerator='cpu'" in str(error) else "the chip's run"
            wrong.append(f"{namespace}: {where}: {str(error).splitlines()[-1]}")
            continue
        for rank, found in enumerate(ours):
            if found["weights"] != expected:
                wrong.append(
                    f"{namespace}: the weights of rank {rank} differ from {'rank 0' if trial.mixed else 'the CPU'}'s"
                )
            if not found["root device"].startswith(f"{CHIP}:"):
                wrong.append(f"{namespace}: rank {rank} trained on {found['root device']}")
            if trial.mixed and found["scores"] != ["torch.bfloat16"]:
                wrong.append(f"{namespace}: the model of rank {rank} computed in {found['scores']}")
        if len(ours) != trial.devices:
            wrong.append(f"{namespace}: {len(ours)} ranks trained")
    return wrong


def _train(pair: Pair, trial: Trial, namespace: str, *, on_chip: bool) -> list[dict[str, Any]]:
    environ = {"PYTHONPATH": str(lay_over(pair))}
    accelerator = CHIP if on_chip else "cpu"
    if on_chip and trial.by_auto:
        accelerator = "auto"
        environ["NORTHBRIDGE_SIMULATE"] = CHIP
    scenario = Scenario(
        accelerator=accelerator,
        namespace=namespace,
        steps=(reference(trial.step),),
        devices=trial.devices,
        strategy=trial.strategy,
        models=("mlp",),
    )
    return run(scenario, environ).findings[f"{trial.step.__name__} {scenario.models[0]}"]


# --- The page


def main(*, again: bool) -> int:
    """Run the matrix, write the page, and return 1 if a trial failed; ``again``: only the rows that have not passed."""
    kept = _passed(PAGE.read_text()) if again else {}
    rows: dict[Pair, str] = {}
    for pair in PAIRS:
        rows[pair] = kept.get(str(pair)) or _row(pair, [_try(pair, trial) for trial in TRIALS])
    write_parts(PAGE, *parts(rows, again=again))
    print(f"wrote {PAGE}")
    return int(any("failed" in row for row in rows.values()))


def _try(pair: Pair, trial: Trial) -> list[str]:
    wrong = differences(pair, trial)
    print(f"{pair}: {trial.title}: {'; '.join(wrong) or 'passed'}", flush=True)
    return wrong


def _passed(text: str) -> dict[str, str]:
    """Return the rows of a page in which every trial passed, by the release."""
    rows = (line for line in text.splitlines() if "| passed |" in line and "failed" not in line)
    return {line.split("|")[1].strip(): line for line in rows}


def _row(pair: Pair, wrong: list[list[str]]) -> str:
    return f"| {pair} | " + " | ".join(_cell(each) for each in wrong) + " |"


def parts(rows: dict[Pair, str], *, again: bool = False) -> tuple[str, str]:
    """Return what the page says of a run: when it was, and a table of ``rows``."""
    when = f"Written by `make matrix` on {date.today():%Y-%m-%d}, with torch {torch.__version__}, Python"
    kept = " Rows that had passed before were kept." if again else ""
    head = [f"| release | {' | '.join(trial.title for trial in TRIALS)} |", f"|---|{'---|' * len(TRIALS)}"]
    return f"{when} {platform.python_version()},\non {platform.system()}.{kept}", "\n".join([*head, *rows.values()])


def _cell(wrong: list[str]) -> str:
    return "failed: " + "; ".join(each.replace("|", "/") for each in wrong) if wrong else "passed"


if __name__ == "__main__":
    sys.exit(main(again="--again" in sys.argv[1:]))
