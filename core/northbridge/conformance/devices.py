"""What ``devices=`` means."""

from __future__ import annotations

import pytest

import northbridge
from northbridge.conformance.duties.choosing import FORMS
from northbridge.conformance.scenario import Outcome, Scenario, run
from northbridge.conformance.suite import FABRICS, TRAINERS, Suite, chip_run, cpu_run, require


class DeviceChoice(Suite):
    """Each form that Lightning knows means on the chip what it means elsewhere."""

    @pytest.fixture(params=[*TRAINERS, *FABRICS])
    def face(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.mark.parametrize("form", FORMS)
    def test_devices_takes(self, backend: str, face: str, environ: dict[str, str], form: str) -> None:
        everything = range(northbridge.available()[backend])
        indices = {"1": [0], "[1]": [1], "'auto'": everything, "-1": everything}.get(form, [0, 1])

        found = chip_run(backend, face, 1, environ).only("choosing")[form]

        kind = northbridge.get(backend).device.type
        assert found == [f"{kind}:{index}" for index in indices]


class SecondDevice(Suite):
    """``devices=[1]`` really is the second device."""

    @pytest.fixture(params=[TRAINERS[0], FABRICS[0]])
    def face(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def chip(self, backend: str, face: str, environ: dict[str, str]) -> Outcome:
        require(face)
        duty = "training" if face in TRAINERS else "looping"
        return run(Scenario(backend, face, (duty,), (1,), models=("mlp",)), environ)

    def test_it_trains_the_weights_of_a_cpu_run(self, face: str, chip: Outcome) -> None:
        assert chip.only("training mlp")["weights"] == cpu_run(face, 1).only("training mlp")["weights"]

    def test_memory_is_allocated_there_and_nowhere_else(
        self, backend: str, chip: Outcome, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        root = str(northbridge.load(backend).device.root(1))

        found = chip.only("training mlp")

        assert found["root device"] == root
        assert found["in use"] == [root]
