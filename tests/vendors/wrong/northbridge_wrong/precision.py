"""Faults in dtypes, autocast, gradient scaling, and float8."""

import northbridge
import northbridge_right as right
from northbridge_right import Device, dist, is_ours, torch, wrong


@wrong("C1/Autocast/test_matmul_computes_in_the_dtype[bfloat16]", "torch.set_autocast_enabled")
def autocast_ignored(switch, device, enabled):
    """Autocast is ignored."""
    switch(device, enabled and device != Device.type)


@wrong(
    "C2/Precision/test_16_mixed_computes_in_float16_with_an_enabled_scaler[one device-lightning.fabric]",
    "torch.amp.GradScaler.__init__",
)
def scaler_disabled(begin, scaler, device):
    """The gradient scaler is disabled."""
    begin(scaler, device, enabled=False)


@wrong("C1/Autocast/test_matmul_computes_in_the_dtype[float16]", "torch.set_autocast_dtype")
def float16_computed_in_float32(choose, device, dtype):
    """float16 is claimed, but computed in float32."""
    choose(device, torch.float32 if dtype == torch.float16 else dtype)


@wrong("C1/Dtypes/test_arithmetic_rounds_to_the_dtype[float64]", "Bridge.load")
def false_claim(*_):
    """A claim is false."""
    right.install(right.simulated(lacks={"float64": "the chip has no double precision"}))


@wrong("C1/Dtypes/test_arithmetic_rounds_to_the_dtype[bfloat16]", bfloat16=northbridge.no("its matrix unit has none"))
def hidden_capability():
    """A working capability is denied."""


@wrong(
    "C1/LargeOperations/test_result_and_gradient_match_the_cpu[nn.functional.linear]",
    "torch.nn.functional.linear",
    rounding="C1/MatrixUnit/test_float32_matmul_keeps_tf32_precision_and_range[130]",
)
def wide_products_rounded(linear, given, weight, bias=None):
    """Large products are computed in fewer bits."""
    if is_ours(given) and weight.shape[1] >= 128:
        given = given.bfloat16().to(given.dtype)
    return linear(given, weight, bias)


@wrong("C1/Autocast/test_nested_autocast_uses_its_own_dtype", "torch.set_autocast_dtype")
def inner_autocast_ignored(choose, device, dtype):
    """A nested autocast keeps the outer dtype."""
    if device != Device.type or torch.autocast_increment_nesting() == 1:
        choose(device, dtype)
    torch.autocast_decrement_nesting()


@wrong(
    "C1/GradientScaling/test_one_non_finite_element_skips_the_step[the last-inf]",
    "torch._amp_foreach_non_finite_check_and_unscale_",
)
def overflow_of_the_first_alone(unscale, gradients, found, scale):
    """The scaler checks only the first gradient."""
    if is_ours(gradients[0]) and len(gradients) > 1:
        unscale(gradients[1:], found.clone(), scale)
        gradients = gradients[:1]
    return unscale(gradients, found, scale)


kept = []


@wrong("C1/Autocast/test_exp_and_pow_compute_in_float32[exp-bfloat16]")
def exponential_narrow():
    """Autocast computes exp in 16 bits."""

    def narrow(given):
        with torch.autocast(Device.type, enabled=False):
            return given.exp().float()

    kept.append(torch.library.Library("aten", "IMPL"))
    kept[-1].impl("exp", narrow, "AutocastPrivateUse1", allow_override=True)


@wrong("C1/GradientScaling/test_unscaled_gradients_can_be_clipped")
def unscaled_late():
    """unscale_ leaves gradients scaled, so clipping is wrong."""
    from torch.amp import GradScaler

    step = GradScaler.step
    unscale = GradScaler.unscale_

    def step_late(scaler, optimizer, *rest, **named):
        unscale(scaler, optimizer)
        return step(scaler, optimizer, *rest, **named)

    GradScaler.unscale_ = lambda scaler, optimizer: None
    GradScaler.step = step_late


@wrong("C1/Autocast/test_float64_inputs_stay_float64[bfloat16]", "torch.nn.functional.linear")
def float64_lowered(linear, given, *rest):
    """Autocast lowers float64 too."""
    if is_ours(given) and torch.is_autocast_enabled(Device.type):
        kind = torch.get_autocast_dtype(Device.type)
        given, *rest = (each if each is None else each.to(kind) for each in (given, *rest))
    return linear(given, *rest)


@wrong("C1/MatrixUnit/test_convolution_keeps_float32_precision[2]", "torch.nn.functional.conv2d", rounding="")
def convolutions_rounded(conv2d, given, weight, *rest, **named):
    """float32_convolutions is claimed, but they are computed in float16."""
    if is_ours(given):
        given, weight = (each.half().to(each.dtype) for each in (given, weight))
    return conv2d(given, weight, *rest, **named)


@wrong("C1/MatrixUnit/test_bfloat16_matmul_keeps_the_range[large-3]", "torch.nn.functional.linear")
def bfloat16_ends_early(linear, given, weight, bias=None):
    """bfloat16_range is claimed, but products have float16's range."""
    ends = is_ours(given) and given.dtype == torch.bfloat16
    return linear(given.clamp(-65407, 65407) if ends else given, weight, bias)


@wrong(
    "C2/Precision/test_each_precision_reaches_the_model[one device-lightning.pytorch-bf16-true-bfloat16-bfloat16]",
    "torch._foreach_addcdiv_",
    "torch._foreach_add_",
)
def half_weights_stay(step, parameters, *rest, **named):
    """16-bit weights are not updated."""
    first = parameters[0]
    if not is_ours(first) or first.dtype.itemsize != 2 or not first.requires_grad:
        step(parameters, *rest, **named)


@wrong("C0/SoftwareLoading/test_device_defaults_find_their_torch_functions")
def dtypes_not_told():
    """Torch's module has no get_amp_supported_dtype()."""
    del torch.fairchip.get_amp_supported_dtype


@wrong("C0/SoftwareLoading/test_autocast_accepts_each_dtype_that_is_not_denied", "Device.autocast_dtypes")
def autocast_of_nothing(*_):
    """Mixed precision is claimed, but autocast supports no dtype."""
    return ()


@wrong(
    "C2/Precision/test_bf16_mixed_computes_in_bfloat16_inside_the_model[one device-lightning.fabric-mlp]",
    "torch.nn.functional.linear",
)
def backbone_in_float32(linear, given, weight, bias=None):
    """Autocast reaches only the last layer."""
    if not is_ours(given) or len(weight) < 8 or not torch.is_autocast_enabled(Device.type):
        return linear(given, weight, bias)
    with torch.autocast(Device.type, enabled=False):
        return linear(given.float(), weight, bias)


@wrong(
    "C3/Sharding/test_bf16_mixed_computes_in_bfloat16_inside_the_model[two devices-lightning_fabric]",
    "torch.nn.functional.linear",
)
def sharded_backbone_in_float32(linear, *given):
    """Autocast reaches only the last layer of a sharded model."""
    return backbone_in_float32(linear, *given) if dist.is_initialized() else linear(*given)


@wrong("C1/Float8/test_layer_has_the_rounding_error_of_float8", "northbridge.TorchAO.convert")
def float8_scale_kept(convert, engine, linear, recipe):
    """A layer in float8 keeps the scales of its first step."""
    from torchao.float8 import float8_scaling_utils

    compute, scales = float8_scaling_utils.tensor_to_scale, {}

    def first(tensor, dtype, *rest, **named):
        return scales.setdefault((tensor.shape, dtype), compute(tensor, dtype, *rest, **named))

    float8_scaling_utils.tensor_to_scale = first
    return convert(engine, linear, recipe)


@wrong("C1/Float8/test_largest_values_are_not_clipped", "torch.Tensor.to")
def float8_ends_at_240(to, tensor, *given, **named):
    """float8 ends at 240, and scales are for 448."""
    ends = torch.float8_e4m3fn in (*given, *named.values()) and is_ours(tensor)
    return to(tensor.clamp(-240, 240) if ends else tensor, *given, **named)


@wrong("C1/Float8/test_layer_has_the_rounding_error_of_float8", "northbridge.TorchAO.convert")
def float8_is_bfloat16(_, engine, linear, recipe):
    """Layers said to be float8 compute in bfloat16."""
    type(engine).is_converted = lambda *_: True
    return linear


@wrong("C1/Float8/test_conversion_keeps_parameters_and_their_names", "northbridge.TorchAO.convert")
def float8_weights_fresh(convert, engine, linear, recipe):
    """A layer in float8 begins with weights of its own."""
    return convert(engine, torch.nn.Linear(linear.in_features, linear.out_features), recipe)


@wrong(
    "C1/QuantizedLayers/test_quantized_layer_has_the_rounding_error_of_float8",
    "torchao.quantization.quant_primitives._dequantize_affine_float8",
)
def float8_inference_scale_forgotten(dequantize, tensor, scale, output_dtype):
    """A tensor in float8 is dequantized without its scale."""
    return dequantize(tensor, torch.ones_like(scale), output_dtype)
