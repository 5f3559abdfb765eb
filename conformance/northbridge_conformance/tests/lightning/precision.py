"""Mixed precision on the chip's own device type."""

from __future__ import annotations

import pytest

from northbridge.errors import UnsupportedError
from northbridge_conformance.rank_programs.precision import BATCHES, OVERFLOW, PRECISIONS
from northbridge_conformance.run import RunResult
from northbridge_conformance.suite import FABRICS, TRAINERS, Differences, NamespaceSuite, Runs, in_each, shows

MODELS = ("mlp", "convnet", "transformer")


class Precision(NamespaceSuite):
    """``bf16-mixed`` and ``16-mixed`` reach the model, in the Trainer and in Fabric."""

    runs: Runs = in_each(*TRAINERS, *FABRICS)
    advice = (
        "Look at the Device's autocast_dtypes(), at the autocast keys that the vendor's plugin registers, and at the"
        " claims for bfloat16, float16 and float64: deny what the chip cannot do."
    )

    @shows("bfloat16")
    @pytest.mark.parametrize("model", MODELS)
    def test_bf16_mixed_computes_in_bfloat16_inside_the_model(self, chip: RunResult, model: str) -> None:
        found = chip.only(f"precision.mixed {model}")

        assert found["autocast"] == [True]
        assert found["scores"] == ["torch.bfloat16"]
        assert chip.only("precision.mixed inside")["dtypes"] == ["torch.bfloat16"]

    # Not the Transformer: the CPU's autocast and an accelerator's treat softmax and layer norm differently.
    @shows("bfloat16")
    @pytest.mark.parametrize("model", ["mlp", "convnet"])
    def test_bf16_mixed_trains_the_weights_of_a_cpu_run(self, differences: Differences, model: str) -> None:
        assert differences(f"precision.mixed {model}", "weights", dtype="bfloat16") == []

    def test_no_autocast_unless_asked(self, chip: RunResult) -> None:
        found = chip.only("training mlp")

        assert found["autocast"] == [False]
        assert found["scores"] == ["torch.float32"]

    @shows("float16")
    def test_16_mixed_computes_in_float16_with_an_enabled_scaler(self, chip: RunResult) -> None:
        found = chip.only("precision.scaler")

        assert found["enabled"]
        assert found["scores"] == ["torch.float16"]

    @shows("float16")
    def test_an_overflow_skips_the_step_and_halves_the_scale(self, chip: RunResult) -> None:
        scales, weights = chip.only("precision.scaler")["scales"], chip.only("precision.scaler")["weights"]

        assert weights[OVERFLOW + 1] == weights[OVERFLOW]
        assert scales[OVERFLOW + 1] == scales[OVERFLOW] / 2

    @shows("float16", "checkpoint")
    def test_the_scale_is_in_the_checkpoint_and_taken_up(self, chip: RunResult) -> None:
        assert chip.only("precision.scaler resumed")["scale"] == chip.only("precision.scaler")["scales"][-1]

    @shows("{scores}", "{weights}")
    @pytest.mark.parametrize(
        ("precision", "scores", "weights"), [(name, *dtypes) for name, dtypes in PRECISIONS.items()]
    )
    def test_each_precision_reaches_the_model(self, chip: RunResult, precision: str, scores: str, weights: str) -> None:
        found = chip.only("precision.dtypes")[precision]

        if "refused" in found:
            raise UnsupportedError(found["said"], capability=found["refused"])
        assert found == {"scores": [scores], "weights": [weights], "as they began": []}

    @shows("float16")
    def test_steps_without_an_overflow_are_taken(self, chip: RunResult) -> None:
        scales, weights = chip.only("precision.scaler")["scales"], chip.only("precision.scaler")["weights"]

        assert len(set(weights)) == BATCHES
        assert scales[-1] == scales[OVERFLOW + 1]
