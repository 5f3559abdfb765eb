"""One and two devices, in a loop of one's own through Fabric."""

from __future__ import annotations

import pytest

import northbridge
from northbridge.conformance.findings import digest
from northbridge.conformance.hosts import build
from northbridge.conformance.scenario import Outcome
from northbridge.conformance.suite import FABRICS, Suite, chip_run, cpu_run
from northbridge.conformance.training import MODELS


class FabricTraining(Suite):
    """Fabric trains as Lightning's own does on as many CPU ranks."""

    @pytest.fixture(params=FABRICS)
    def face(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture(params=[1, 2], ids=["one device", "two devices"])
    def devices(self, request: pytest.FixtureRequest) -> int:
        return int(request.param)

    @pytest.fixture
    def chip(self, backend: str, face: str, devices: int, environ: dict[str, str]) -> Outcome:
        return chip_run(backend, face, devices, environ)

    @pytest.fixture
    def cpu(self, face: str, devices: int) -> Outcome:
        return cpu_run(face, devices)

    @pytest.mark.parametrize("model", MODELS)
    def test_the_weights_are_those_of_a_cpu_run_on_each_rank(self, chip: Outcome, cpu: Outcome, model: str) -> None:
        expected = [rank["weights"] for rank in cpu.ranks(f"training {model}")]

        assert [rank["weights"] for rank in chip.ranks(f"training {model}")] == expected

    @pytest.mark.parametrize("model", MODELS)
    def test_the_ranks_have_learnt_the_same(self, chip: Outcome, model: str) -> None:
        # Parameters: what batch norm has seen is each rank's own.
        assert len({rank["learnt"] for rank in chip.ranks(f"training {model}")}) == 1

    @pytest.mark.parametrize("model", MODELS)
    def test_an_optimizer_made_before_setup_trains_the_model(self, chip: Outcome, model: str) -> None:
        untrained = digest(build(model).state_dict())

        assert all(rank["weights"] != untrained for rank in chip.ranks(f"training {model}"))

    def test_tied_weights_stay_tied(self, chip: Outcome) -> None:
        tied = len(list(build("tied").parameters()))

        assert [rank["parameters"] for rank in chip.ranks("training tied")] == [tied] * len(chip.ranks("training tied"))

    def test_each_rank_trains_on_a_device_with_an_index(
        self, backend: str, chip: Outcome, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        device = northbridge.load(backend).device

        for index, rank in enumerate(chip.ranks("training mlp")):
            name = str(device.root(index))
            assert rank["host"] == rank["root device"] == rank["module device"] == name
            assert rank["parameter devices"] == [name]
