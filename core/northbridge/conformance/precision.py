"""Mixed precision, on the chip's own device type."""

from __future__ import annotations

import pytest

import northbridge
from northbridge.conformance.duties.rounding import PRECISIONS
from northbridge.conformance.duties.scaling import BATCHES, OVERFLOW
from northbridge.conformance.scenario import Outcome
from northbridge.conformance.suite import FABRICS, TRAINERS, FaceSuite, in_each

MODELS = ("mlp", "convnet", "transformer")


class Precision(FaceSuite):
    """``bf16-mixed`` and ``16-mixed`` reach the model, in the Trainer and in Fabric."""

    runs = in_each(*TRAINERS, *FABRICS)

    @pytest.mark.parametrize("model", MODELS)
    def test_bf16_mixed_computes_in_bfloat16_inside_the_model(self, chip: Outcome, model: str) -> None:
        found = chip.only(f"autocasting {model}")

        assert found["autocast"] == [True]
        assert found["scores"] == ["torch.bfloat16"]

    # Not the Transformer: the CPU's autocast and an accelerator's treat softmax and layer norm differently.
    @pytest.mark.parametrize("model", ["mlp", "convnet"])
    def test_bf16_mixed_trains_the_weights_of_a_cpu_run(self, chip: Outcome, cpu: Outcome, model: str) -> None:
        topic = f"autocasting {model}"

        assert chip.only(topic)["weights"] == cpu.only(topic)["weights"]

    def test_no_autocast_unless_asked(self, chip: Outcome) -> None:
        found = chip.only("training mlp")

        assert found["autocast"] == [False]
        assert found["scores"] == ["torch.float32"]

    def test_16_mixed_computes_in_float16_with_an_enabled_scaler(self, chip: Outcome) -> None:
        found = chip.only("scaling")

        assert found["enabled"]
        assert found["scores"] == ["torch.float16"]

    def test_an_overflow_skips_the_step_and_halves_the_scale(self, chip: Outcome) -> None:
        scales, weights = chip.only("scaling")["scales"], chip.only("scaling")["weights"]

        assert weights[OVERFLOW + 1] == weights[OVERFLOW]
        assert scales[OVERFLOW + 1] == scales[OVERFLOW] / 2

    def test_the_scale_is_in_the_checkpoint_and_taken_up(self, chip: Outcome) -> None:
        assert chip.only("scaling resumed")["scale"] == chip.only("scaling")["scales"][-1]

    @pytest.mark.parametrize("precision", PRECISIONS)
    def test_each_precision_reaches_the_model_or_is_refused(self, chip: Outcome, backend: str, precision: str) -> None:
        scores, weights = PRECISIONS[precision]
        claims = northbridge.load(backend).present_capabilities().claims()
        denied = {name for name, claim in claims.items() if claim.denied}
        lacking = sorted(denied & {scores, weights})

        found = chip.only("rounding")[precision]

        assert found == ({"refused": lacking[0]} if lacking else {"scores": [scores], "weights": [weights]})

    def test_steps_without_an_overflow_are_taken(self, chip: Outcome) -> None:
        scales, weights = chip.only("scaling")["scales"], chip.only("scaling")["weights"]

        assert len(set(weights)) == BATCHES
        assert scales[-1] == scales[OVERFLOW + 1]
