"""Models that the user has compiled."""

from __future__ import annotations

import pytest

import northbridge
from northbridge.errors import UnsupportedError
from northbridge_conformance.run import RunResult
from northbridge_conformance.suite import FABRICS, TRAINERS, Runs, UsesSuite, one_and_two_devices, shows


class Compiled(UsesSuite):
    """The tests that are the same for a Trainer and a Fabric."""

    @shows("fit")
    def test_a_compiled_model_trains_as_the_plain_one(self, chip: RunResult) -> None:
        check(chip, "eager")

    @shows("compile")
    def test_the_chips_own_backend_trains_as_without_it(self, chip: RunResult, backend: str) -> None:
        require_own(chip, backend)
        check(chip, "the chip's")

    @shows("compile")
    def test_the_second_epoch_compiles_nothing(self, chip: RunResult, backend: str) -> None:
        require_own(chip, backend)
        for first, second in (found["graphs"] for found in chip.each("compilation", "the chip's")):
            assert first >= 1
            assert second == 0

    def test_a_missing_compiler_is_refused_before_the_first_step(self, chip: RunResult, backend: str) -> None:
        missing = northbridge.load(backend).bridge.missing_compile_backends

        for found in chip.ranks("compilation"):
            tried = {name: found[name] for name in found["missing"]}
            assert set(tried) == set(missing)  # may be empty
            for name, came_of_it in tried.items():
                said = f"{backend!r} cannot compile with {name!r}: {missing[name]}"
                assert came_of_it["batches"] == 0
                assert said in came_of_it["refused"]


class Compilation(Compiled):
    """A compiled LightningModule trains, and a backend that the chip lacks is refused."""

    runs: Runs = one_and_two_devices(*TRAINERS)
    advice = (
        "Look at the bridge's missing_compile_backends and compile_backend, and at torch.compile over your device"
        " with backend='eager'."
    )


class FabricCompilation(Compiled):
    """A Fabric compiles a model again after its setup, with the chip's backend unless the user named one."""

    runs: Runs = one_and_two_devices(*FABRICS)
    advice = "Look at the bridge's missing_compile_backends and compile_backend: what is named there is what happens."

    @shows("compile")
    def test_a_model_that_is_compiled_inside_the_strategy_trains(self, chip: RunResult, backend: str) -> None:
        require_own(chip, backend)
        check(chip, "inside the strategy")

    def test_without_a_backend_the_chips_is_used_or_missed(self, chip: RunResult, backend: str) -> None:
        named = northbridge.load(backend).bridge.compile_backend
        registered = [named in each for each in chip.each("compilation", "registered")]

        if named is None:  # torch's own backend is used, which may not know the chip
            assert not any("without a backend" in found for found in chip.ranks("compilation"))
        elif all(registered):
            check(chip, "without a backend")
        else:
            for found in chip.each("compilation", "without a backend"):
                assert f"{backend!r} compiles with {named!r}, which torch does not have" in found["refused"]


def require_own(chip: RunResult, backend: str) -> None:
    """Raise :class:`UnsupportedError` unless the chip's bridge names a backend that torch has."""
    named = northbridge.load(backend).bridge.compile_backend
    if named is None or not all(named in each for each in chip.each("compilation", "registered")):
        raise UnsupportedError(f"{backend!r} names no backend of torch.compile that torch has", capability="compile")


def check(chip: RunResult, way: str) -> None:
    """Compare the weights with those of the uncompiled model."""
    for found in chip.ranks("compilation"):
        assert found[way]["weights"] == pytest.approx(found["plainly"]["weights"], abs=1e-6)
