"""Fused optimizers, and the norm that gradients are clipped to."""

from functools import cache

import northbridge_right as right


@right.instead_of("torch._fused_adamw_")
def epsilon_scaled(step, weights, *given, eps, **named):
    """The fused step of AdamW adds ten times the epsilon that it is given."""
    wrong = 10 if weights[0].device.type == right.Device.type else 1
    return step(weights, *given, eps=eps * wrong, **named)


@right.instead_of("torch._fused_sgd_")
def momentum_forgotten(step, weights, *given, momentum, **named):
    """The fused step of SGD has no momentum."""
    return step(weights, *given, momentum=0.0 if weights[0].device.type == right.Device.type else momentum, **named)


@right.instead_of("torch.nn.utils.clip_grad_norm_")
def largest_gradient_clipped(clip, parameters, max_norm, *given, **named):
    """Gradients are clipped by the largest of them."""
    parameters = list(parameters)
    if parameters and parameters[0].device.type == right.Device.type:
        return clip(parameters, max_norm, float("inf"))
    return clip(parameters, max_norm, *given, **named)


@right.wrong
class WholeVectorsSkipped(right.Acceleration):
    """The vendor's fused SGD steps no whole vector of 16-bit weights."""

    @cache
    def fused_optimizers(self):
        import torch

        class FusedSGD(torch.optim.SGD):
            def step(self, closure=None):
                weights = [each for group in self.param_groups for each in group["params"] if each.itemsize == 2]
                vectors = [each.detach().flatten()[: each.numel() // 32 * 32].clone() for each in weights]
                result = super().step(closure)
                for weight, vector in zip(weights, vectors, strict=True):
                    weight.data.flatten()[: len(vector)] = vector
                return result

        return {torch.optim.SGD: FusedSGD}
