"""Train models that people train, on the CPU and on the chips, and compare: `make zoo`; writes docs/reports/zoo.md.

With words, only these models, and no page is written: ``python -m tests.zoo bert vit``. Exit code 1 on a difference for
which no rule stands.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.engines import FOLDER, READY
from tests.zoo.launch import CHIPS, REFERENCE, train_all
from tests.zoo.models import ZOO
from tests.zoo.page import write_page
from tests.zoo.verdict import DEVICES, judge, unused_rules


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
        write_page(verdicts)
    print(f"make zoo: {len(verdicts)} trainings compared; {len(wrong)} complaints; {time.monotonic() - began:.0f} s")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
