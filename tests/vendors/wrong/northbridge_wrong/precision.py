"""Dtypes, autocast, and gradient scaling."""

import northbridge
import northbridge_right as right


@right.instead_of("torch.set_autocast_enabled")
def autocast_ignored(switch, device, enabled):
    """Autocast is never switched on for the chip."""
    switch(device, enabled and device != right.Device.type)


@right.instead_of("torch.amp.GradScaler.__init__")
def scaler_disabled(begin, self, device):
    """The gradient scaler for float16 is one that does nothing."""
    begin(self, device, enabled=False)


@right.instead_of("torch.set_autocast_dtype")
def float16_computed_in_float32(choose, device, dtype):
    """Autocast in float16 computes in float32."""
    import torch

    choose(device, torch.float32 if dtype == torch.float16 else dtype)


@right.wrong
class FalseClaim(right.Bridge):
    """The chip claims float64, and has none."""

    def load(self) -> None:
        right.install(right.simulated(lacks={"float64": "the chip has no double precision"}))


# The chip denies bfloat16, and has it.
right.announce("hidden_capability", claims=right.capabilities(bfloat16=northbridge.no("its matrix unit has none")))


@right.instead_of("torch.nn.functional.linear")
def wide_products_rounded(linear, given, weight, bias=None):
    """Products of many numbers are computed in bfloat16."""
    if given.device.type == right.Device.type and weight.shape[1] >= 128:
        given = given.bfloat16().to(given.dtype)
    return linear(given, weight, bias)


@right.instead_of("torch.set_autocast_dtype")
def inner_autocast_ignored(choose, device, dtype):
    """Autocast within autocast keeps the outer dtype."""
    import torch

    if device != right.Device.type or torch.autocast_increment_nesting() == 1:
        choose(device, dtype)
    torch.autocast_decrement_nesting()


@right.instead_of("torch._amp_foreach_non_finite_check_and_unscale_")
def overflow_of_the_first_alone(unscale, gradients, found, scale):
    """The scaler looks at the first gradient alone."""
    if gradients[0].device.type != right.Device.type:
        return unscale(gradients, found, scale)
    if len(gradients) > 1:
        unscale(gradients[1:], found.clone(), scale)
    return unscale(gradients[:1], found, scale)


@right.wrong
class ExponentialNarrow(right.Bridge):
    """Autocast computes an exponential in the few bits of what it is given, and widens the result."""

    def load(self) -> None:
        super().load()
        import torch

        def narrow(given):
            with torch.autocast(right.Device.type, enabled=False):
                return given.exp().float()

        self.library = torch.library.Library("aten", "IMPL")
        self.library.impl("exp", narrow, "AutocastPrivateUse1", allow_override=True)

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "library"}


@right.wrong
def unscaled_late():
    """Gradients are unscaled when the optimizer steps, and not when they are asked to be."""
    from torch.amp import GradScaler

    step = GradScaler.step
    unscale = GradScaler.unscale_

    def step_late(self, optimizer, *rest, **named):
        unscale(self, optimizer)
        return step(self, optimizer, *rest, **named)

    GradScaler.unscale_ = lambda self, optimizer: None
    GradScaler.step = step_late


@right.instead_of("torch.nn.functional.linear")
def float64_lowered(linear, given, *rest):
    """Autocast lowers float64 too."""
    import torch

    if given.device.type == right.Device.type and torch.is_autocast_enabled(right.Device.type):
        kind = torch.get_autocast_dtype(right.Device.type)
        given, *rest = (each if each is None else each.to(kind) for each in (given, *rest))
    return linear(given, *rest)


@right.instead_of("torch.nn.functional.conv2d")
def convolutions_rounded(conv2d, given, weight, *rest, **named):
    """Convolutions of float32 are computed in float16, and claimed not to be."""
    if given.device.type == right.Device.type:
        given, weight = (each.half().to(each.dtype) for each in (given, weight))
    return conv2d(given, weight, *rest, **named)


@right.instead_of("torch.nn.functional.linear")
def bfloat16_ends_early(linear, given, weight, bias=None):
    """Products of bfloat16 end where float16 does, and are claimed not to."""
    import torch

    if given.device.type == right.Device.type and given.dtype == torch.bfloat16:
        given = given.clamp(-65407, 65407)
    return linear(given, weight, bias)


@right.instead_of("torch._foreach_addcdiv_", "torch._foreach_add_")
def half_weights_stay(step, parameters, *rest, **named):
    """The fused loop over parameters leaves those of 16 bits as they are."""
    first = parameters[0]
    if first.device.type != right.Device.type or first.dtype.itemsize != 2 or not first.requires_grad:
        step(parameters, *rest, **named)


@right.wrong
def dtypes_not_told():
    """torch's module of the chip has no ``get_amp_supported_dtype``."""
    import torch

    del torch.fairchip.get_amp_supported_dtype


@right.wrong
class AutocastOfNothing(right.Device):
    """Mixed precision is claimed, but autocast supports no dtype."""

    def autocast_dtypes(self):
        return ()


@right.instead_of("torch.nn.functional.linear")
def backbone_in_float32(linear, *given):
    """Autocast reaches only a model's last layer."""
    return wide_in_float32(linear, *given)


@right.instead_of("torch.nn.functional.linear")
def sharded_backbone_in_float32(linear, *given):
    """Autocast reaches only the last layer of a sharded model."""
    import torch.distributed as dist

    return wide_in_float32(linear, *given) if dist.is_initialized() else linear(*given)


def wide_in_float32(linear, given, weight, bias=None):
    """Compute a layer of many outputs without autocast."""
    import torch

    if given.device.type != right.Device.type or len(weight) < 8 or not torch.is_autocast_enabled(given.device.type):
        return linear(given, weight, bias)
    with torch.autocast(given.device.type, enabled=False):
        return linear(given.float(), weight, bias)
