"""Training in float8."""

import northbridge
import northbridge_right as right


@right.wrong
class Float8ScaleKept(right.Acceleration):
    """The scales of a layer's first step stay."""

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


@right.instead_of("torch.Tensor.to")
def float8_ends_at_240(to, tensor, *given, **named):
    """A number beyond 240 becomes 240 in e4m3, and scales are for 448."""
    import torch

    ends = torch.float8_e4m3fn in (*given, *named.values()) and tensor.device.type == right.Device.type
    return to(tensor.clamp(-240, 240) if ends else tensor, *given, **named)


@right.wrong
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


@right.wrong
class Float8WeightsFresh(right.Acceleration):
    """A layer in float8 begins with random weights of its own."""

    def float8_engines(self):
        return {"torchao": Fresh()}


class Fresh(northbridge.TorchAO):
    """Converts another layer."""

    def convert(self, linear, recipe):
        import torch

        other = torch.nn.Linear(linear.in_features, linear.out_features)
        return super().convert(other, recipe)


@right.instead_of("torchao.quantization.quant_primitives._dequantize_affine_float8")
def float8_inference_scale_forgotten(dequantize, tensor, scale, output_dtype):
    """A tensor of e4m3 is dequantized without its scale."""
    import torch

    return dequantize(tensor, torch.ones_like(scale), output_dtype)
