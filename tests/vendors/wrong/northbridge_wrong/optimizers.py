"""Fused optimizers, and the norm that gradients are clipped to."""

from functools import cache

import northbridge_right as right
from northbridge_right import torch


@right.caught_by("C1/FusedOptimizers/test_large_epsilon_matches_a_published_adamw_formula")
@right.instead_of("torch._fused_adamw_")
def epsilon_scaled(step, weights, *given, eps, **named):
    """A fused step scales epsilon."""
    wrong = 10 if weights[0].device.type == right.Device.type else 1
    return step(weights, *given, eps=eps * wrong, **named)


@right.caught_by("C1/FusedOptimizers/test_fused_step_matches_float64[SGD]")
@right.instead_of("torch._fused_sgd_")
def momentum_forgotten(step, weights, *given, momentum, **named):
    """A fused step forgets momentum."""
    return step(weights, *given, momentum=0.0 if weights[0].device.type == right.Device.type else momentum, **named)


@right.caught_by("C1/FusedOptimizers/test_clip_grad_norm_matches_the_cpu[clipped]")
@right.instead_of("torch.nn.utils.clip_grad_norm_")
def largest_gradient_clipped(clip, parameters, max_norm, *given, **named):
    """Gradients are clipped by another norm."""
    parameters = list(parameters)
    if parameters and parameters[0].device.type == right.Device.type:
        return clip(parameters, max_norm, float("inf"))
    return clip(parameters, max_norm, *given, **named)


@right.wrong("C1/FusedOptimizers/test_fused_16_bit_step_matches_float64_or_raises[SGD-bfloat16]")
class WholeVectorsSkipped(right.Acceleration):
    """A fused step skips vectors of 16 bits."""

    @cache
    def fused_optimizers(self):
        class FusedSGD(torch.optim.SGD):
            def step(self, closure=None):
                weights = [each for group in self.param_groups for each in group["params"] if each.itemsize == 2]
                vectors = [each.detach().flatten()[: each.numel() // 32 * 32].clone() for each in weights]
                result = super().step(closure)
                for weight, vector in zip(weights, vectors, strict=True):
                    weight.data.flatten()[: len(vector)] = vector
                return result

        return {torch.optim.SGD: FusedSGD}
