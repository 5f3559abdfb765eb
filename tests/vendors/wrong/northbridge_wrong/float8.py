"""Training in float8."""

import northbridge
import northbridge_right as right
from northbridge_right import torch


@right.wrong("C1/Float8/test_layer_has_the_rounding_error_of_float8")
class Float8ScaleKept(right.Acceleration):
    """A layer in float8 keeps the scales of its first step."""

    def float8_engines(self):
        return {"torchao": ScaleKept()}


class ScaleKept(northbridge.TorchAO):
    """Computes a scale once for each tensor of a layer."""

    def convert(self, linear, recipe):
        from torchao.float8 import float8_scaling_utils

        compute, kept = float8_scaling_utils.tensor_to_scale, {}

        def first(tensor, dtype, *rest, **named):
            return kept.setdefault((tensor.shape, dtype), compute(tensor, dtype, *rest, **named))

        float8_scaling_utils.tensor_to_scale = first
        return super().convert(linear, recipe)


@right.caught_by("C1/Float8/test_largest_values_are_not_clipped")
@right.instead_of("torch.Tensor.to")
def float8_ends_at_240(to, tensor, *given, **named):
    """float8 ends at 240, and scales are for 448."""
    ends = torch.float8_e4m3fn in (*given, *named.values()) and tensor.device.type == right.Device.type
    return to(tensor.clamp(-240, 240) if ends else tensor, *given, **named)


@right.wrong("C1/Float8/test_layer_has_the_rounding_error_of_float8")
class Float8IsBfloat16(right.Acceleration):
    """Layers said to be float8 compute in bfloat16."""

    def float8_engines(self):
        return {"plain": Plain()}


class Plain(northbridge.Float8Engine):
    """Leaves a layer as it is."""

    def read_recipe(self, recipe):
        return recipe

    def convert(self, linear, recipe):
        return linear

    def is_converted(self, module):
        return True


@right.wrong("C1/Float8/test_conversion_keeps_parameters_and_their_names")
class Float8WeightsFresh(right.Acceleration):
    """A layer in float8 begins with weights of its own."""

    def float8_engines(self):
        return {"torchao": Fresh()}


class Fresh(northbridge.TorchAO):
    """Converts another layer."""

    def convert(self, linear, recipe):
        other = torch.nn.Linear(linear.in_features, linear.out_features)
        return super().convert(other, recipe)


@right.caught_by("C1/QuantizedLayers/test_quantized_layer_has_the_rounding_error_of_float8")
@right.instead_of("torchao.quantization.quant_primitives._dequantize_affine_float8")
def float8_inference_scale_forgotten(dequantize, tensor, scale, output_dtype):
    """A tensor in float8 is dequantized without its scale."""
    return dequantize(tensor, torch.ones_like(scale), output_dtype)
