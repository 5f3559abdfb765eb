"""Two models of the zoo on the simulated Gaudi; `make zoo` trains all of them on each chip."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines import needs_engines
from tests.zoo.launch import REFERENCE, train_all
from tests.zoo.verdict import DEVICES, judge

SAMPLE = ("llama-lora", "recommender", "recommender-sparse")


@needs_engines
@pytest.mark.timeout(300)
def test_a_sample_of_the_zoo_gives_the_cpus_weights(tmp_path: Path) -> None:
    failed = train_all(SAMPLE, (REFERENCE, "hpu"), tmp_path)

    assert not failed, "\n".join(f"{launch}: {said}" for launch, said in failed.items())
    verdicts = [judge(name, "hpu", devices, tmp_path) for name in SAMPLE for devices in DEVICES]
    assert [str(verdict) for verdict in verdicts if verdict.is_wrong] == []
    assert [verdict.model for verdict in verdicts if verdict.rule] == ["recommender-sparse"] * 2
