"""Dtypes, autocast, and gradient scaling."""

import northbridge
import northbridge_right as right
from northbridge_right import dist, torch


@right.caught_by("C1/Autocast/test_matmul_computes_in_the_dtype[bfloat16]")
@right.instead_of("torch.set_autocast_enabled")
def autocast_ignored(switch, device, enabled):
    """Autocast is ignored."""
    switch(device, enabled and device != right.Device.type)


@right.caught_by("C2/Precision/test_16_mixed_computes_in_float16_with_an_enabled_scaler[one device-lightning.fabric]")
@right.instead_of("torch.amp.GradScaler.__init__")
def scaler_disabled(begin, self, device):
    """The gradient scaler is disabled."""
    begin(self, device, enabled=False)


@right.caught_by("C1/Autocast/test_matmul_computes_in_the_dtype[float16]")
@right.instead_of("torch.set_autocast_dtype")
def float16_computed_in_float32(choose, device, dtype):
    """float16 is claimed, but computed in float32."""
    choose(device, torch.float32 if dtype == torch.float16 else dtype)


@right.wrong("C1/Dtypes/test_arithmetic_rounds_to_the_dtype[float64]")
class FalseClaim(right.Bridge):
    """A claim is false."""

    def load(self) -> None:
        right.install(right.simulated(lacks={"float64": "the chip has no double precision"}))


@right.caught_by("C1/Dtypes/test_arithmetic_rounds_to_the_dtype[bfloat16]")
def hidden_capability():
    """A working capability is denied."""
    return right.capabilities(bfloat16=northbridge.no("its matrix unit has none"))


right.announce("hidden_capability", claims=hidden_capability())


@right.caught_by(
    "C1/LargeOperations/test_result_and_gradient_match_the_cpu[nn.functional.linear]",
    rounding="C1/MatrixUnit/test_float32_matmul_keeps_tf32_precision_and_range[130]",
)
@right.instead_of("torch.nn.functional.linear")
def wide_products_rounded(linear, given, weight, bias=None):
    """Large products are computed in fewer bits."""
    if given.device.type == right.Device.type and weight.shape[1] >= 128:
        given = given.bfloat16().to(given.dtype)
    return linear(given, weight, bias)


@right.caught_by("C1/Autocast/test_nested_autocast_uses_its_own_dtype")
@right.instead_of("torch.set_autocast_dtype")
def inner_autocast_ignored(choose, device, dtype):
    """A nested autocast keeps the outer dtype."""
    if device != right.Device.type or torch.autocast_increment_nesting() == 1:
        choose(device, dtype)
    torch.autocast_decrement_nesting()


@right.caught_by("C1/GradientScaling/test_one_non_finite_element_skips_the_step[the last-inf]")
@right.instead_of("torch._amp_foreach_non_finite_check_and_unscale_")
def overflow_of_the_first_alone(unscale, gradients, found, scale):
    """The scaler checks only the first gradient."""
    if gradients[0].device.type != right.Device.type:
        return unscale(gradients, found, scale)
    if len(gradients) > 1:
        unscale(gradients[1:], found.clone(), scale)
    return unscale(gradients[:1], found, scale)


@right.wrong("C1/Autocast/test_exp_and_pow_compute_in_float32[exp-bfloat16]")
class ExponentialNarrow(right.Bridge):
    """Autocast computes exp in 16 bits."""

    def load(self) -> None:
        super().load()

        def narrow(given):
            with torch.autocast(right.Device.type, enabled=False):
                return given.exp().float()

        self.library = torch.library.Library("aten", "IMPL")
        self.library.impl("exp", narrow, "AutocastPrivateUse1", allow_override=True)

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "library"}


@right.wrong("C1/GradientScaling/test_unscaled_gradients_can_be_clipped")
def unscaled_late():
    """unscale_ leaves gradients scaled, so clipping is wrong."""
    from torch.amp import GradScaler

    step = GradScaler.step
    unscale = GradScaler.unscale_

    def step_late(self, optimizer, *rest, **named):
        unscale(self, optimizer)
        return step(self, optimizer, *rest, **named)

    GradScaler.unscale_ = lambda self, optimizer: None
    GradScaler.step = step_late


@right.caught_by("C1/Autocast/test_float64_inputs_stay_float64[bfloat16]")
@right.instead_of("torch.nn.functional.linear")
def float64_lowered(linear, given, *rest):
    """Autocast lowers float64 too."""
    if given.device.type == right.Device.type and torch.is_autocast_enabled(right.Device.type):
        kind = torch.get_autocast_dtype(right.Device.type)
        given, *rest = (each if each is None else each.to(kind) for each in (given, *rest))
    return linear(given, *rest)


@right.caught_by("C1/MatrixUnit/test_convolution_keeps_float32_precision[2]", rounding="")
@right.instead_of("torch.nn.functional.conv2d")
def convolutions_rounded(conv2d, given, weight, *rest, **named):
    """float32_convolutions is claimed, but they are computed in float16."""
    if given.device.type == right.Device.type:
        given, weight = (each.half().to(each.dtype) for each in (given, weight))
    return conv2d(given, weight, *rest, **named)


@right.caught_by("C1/MatrixUnit/test_bfloat16_matmul_keeps_the_range[large-3]")
@right.instead_of("torch.nn.functional.linear")
def bfloat16_ends_early(linear, given, weight, bias=None):
    """bfloat16_range is claimed, but products have float16's range."""
    if given.device.type == right.Device.type and given.dtype == torch.bfloat16:
        given = given.clamp(-65407, 65407)
    return linear(given, weight, bias)


@right.caught_by(
    "C2/Precision/test_each_precision_reaches_the_model[one device-lightning.pytorch-bf16-true-bfloat16-bfloat16]"
)
@right.instead_of("torch._foreach_addcdiv_", "torch._foreach_add_")
def half_weights_stay(step, parameters, *rest, **named):
    """16-bit weights are not updated."""
    first = parameters[0]
    if first.device.type != right.Device.type or first.dtype.itemsize != 2 or not first.requires_grad:
        step(parameters, *rest, **named)


@right.wrong("C0/SoftwareLoading/test_device_defaults_find_their_torch_functions")
def dtypes_not_told():
    """Torch's module has no get_amp_supported_dtype()."""
    del torch.fairchip.get_amp_supported_dtype


@right.wrong("C0/SoftwareLoading/test_autocast_accepts_each_dtype_that_is_not_denied")
class AutocastOfNothing(right.Device):
    """Mixed precision is claimed, but autocast supports no dtype."""

    def autocast_dtypes(self):
        return ()


@right.caught_by("C2/Precision/test_bf16_mixed_computes_in_bfloat16_inside_the_model[one device-lightning.fabric-mlp]")
@right.instead_of("torch.nn.functional.linear")
def backbone_in_float32(linear, *given):
    """Autocast reaches only the last layer."""
    return wide_in_float32(linear, *given)


@right.caught_by("C3/Sharding/test_bf16_mixed_computes_in_bfloat16_inside_the_model[two devices-lightning_fabric]")
@right.instead_of("torch.nn.functional.linear")
def sharded_backbone_in_float32(linear, *given):
    """Autocast reaches only the last layer of a sharded model."""
    return wide_in_float32(linear, *given) if dist.is_initialized() else linear(*given)


def wide_in_float32(linear, given, weight, bias=None):
    """Compute a layer of many outputs without autocast."""
    if given.device.type != right.Device.type or len(weight) < 8 or not torch.is_autocast_enabled(given.device.type):
        return linear(given, weight, bias)
    with torch.autocast(given.device.type, enabled=False):
        return linear(given.float(), weight, bias)
