"""Faults in operators, layers and optimizers."""

import northbridge_right as right


@right.wrong
def tied_weights_untied():
    """A module that is moved to the chip gets new parameters, and those that were one are two."""
    import torch

    torch.__future__.set_overwrite_module_params_on_conversion(True)


@right.instead_of("torch.optim.Optimizer.zero_grad")
def gradients_filled(clear, self, set_to_none=True):
    """Gradients that are dropped are zeros."""
    clear(self, set_to_none=False)


@right.instead_of("torch.nn.functional.conv2d")
def strides_ignored(conv2d, given, *rest, **named):
    """A convolution reads its input as if it lay in one piece."""
    return conv2d(read_flat(given), *rest, **named)


@right.instead_of("torch.nn.functional.conv2d")
def traced_as_constants(conv2d, given, *rest, **named):
    """Convolutions are computed where torch's tracer does not see them."""
    import torch

    if given.device.type != right.Device.type:
        return conv2d(given, *rest, **named)
    tracing = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        return conv2d(given, *rest, **named)
    finally:
        torch._C._set_tracing_state(tracing)


@right.instead_of("torch.index_put")
def accumulation_lost(put, given, where, values, accumulate=False):
    """index_put adds only one of two values to the same index."""
    return put(given, where, values, accumulate and given.device.type != right.Device.type)


@right.instead_of("torch.nn.functional.cross_entropy")
def ignored_class_counted(loss, given, target, *rest, **named):
    """A loss counts a class that it is told to ignore."""
    if given.device.type == right.Device.type:
        named.pop("ignore_index", None)
    return loss(given, target, *rest, **named)


@right.instead_of("torch.softmax")
def softmax_runs_over(softmax, given, dim, *rest, **named):
    """A softmax divides exponentials by their sum, as large as they may be."""
    if given.device.type != right.Device.type:
        return softmax(given, dim, *rest, **named)
    powers = given.exp()
    return powers / powers.sum(dim, keepdim=True)


@right.instead_of("torch.nn.functional.relu")
def finite_taken_for_granted(relu, given, inplace=False):
    """A kernel is compiled as if all numbers were finite."""
    return given.clamp_min(0).nan_to_num(0.0) if given.device.type == right.Device.type else relu(given, inplace)


@right.instead_of("torch.cumsum")
def sums_read_flat(add_up, given, *rest, **named):
    """A running sum reads its numbers as if they lay one after another."""
    return add_up(read_flat(given), *rest, **named)


@right.instead_of("torch._foreach_add")
def decay_lost(add, gradients, others, *rest, **named):
    """The loop over all parameters adds no decay to their gradients."""
    if isinstance(others, (list, tuple)) and gradients[0].device.type == right.Device.type:
        return [each.clone() for each in gradients]
    return add(gradients, others, *rest, **named)


@right.instead_of("torch.Tensor.storage_offset")
def views_at_the_start(rightly, tensor):
    """Every view says that it begins where the memory of its tensor does."""
    return 0 if tensor.device.type == right.Device.type else rightly(tensor)


@right.instead_of("torch.Tensor.mul_")
def inference_forgets(rightly, tensor, other):
    """Under inference_mode what is multiplied in place stays as it was."""
    import torch

    is_lost = torch.is_inference_mode_enabled() and tensor.device.type == right.Device.type
    return tensor * other if is_lost else rightly(tensor, other)


def read_flat(tensor):
    """Return ``tensor``, of the chip's as if its numbers lay one after another."""
    import torch

    if tensor.device.type != right.Device.type or tensor.is_contiguous():
        return tensor
    strides = torch.empty(tensor.shape, device="meta").stride()
    return tensor.as_strided(tensor.shape, strides, tensor.storage_offset())


@right.instead_of("torch.optim.SGD.step")
def update_skipped(step, optimizer, closure=None):
    """The last rank skips its second step."""
    return skip_second(step, optimizer, closure)


@right.instead_of("torch.optim.Adam.step")
def shard_update_skipped(step, optimizer, closure=None):
    """The last rank skips its second step, also of shards."""
    return skip_second(step, optimizer, closure)


def skip_second(step, optimizer, closure):
    optimizer.asked = getattr(optimizer, "asked", 0) + 1
    mine = optimizer.param_groups[0]["params"][0].device.type == right.Device.type
    if mine and optimizer.asked == 2 and right.is_last():
        return closure and closure()
    return step(optimizer, closure)
