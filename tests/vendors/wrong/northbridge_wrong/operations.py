"""Faults in operators, layers and optimizers."""

import northbridge_right as right
from northbridge_right import torch


@right.wrong("C1/Layers/test_moved_module_keeps_tied_weights")
def tied_weights_untied():
    """Tied weights come apart."""
    torch.__future__.set_overwrite_module_params_on_conversion(True)


@right.caught_by("C1/Gradients/test_optimizer_skips_parameters_without_a_gradient")
@right.instead_of("torch.optim.Optimizer.zero_grad")
def gradients_filled(clear, self, set_to_none=True):
    """zero_grad fills gradients with zeros."""
    clear(self, set_to_none=False)


@right.caught_by("C1/Layers/test_strided_inputs_give_the_same_result[Conv2d-turned]")
@right.instead_of("torch.nn.functional.conv2d")
def strides_ignored(conv2d, given, *rest, **named):
    """The strides of a convolution's input are ignored."""
    return conv2d(read_flat(given), *rest, **named)


@right.caught_by("C1/Traces/test_traced_layer_matches_the_cpu_or_raises[Conv2d]")
@right.instead_of("torch.nn.functional.conv2d")
def traced_as_constants(conv2d, given, *rest, **named):
    """A traced convolution is a constant."""
    if given.device.type != right.Device.type:
        return conv2d(given, *rest, **named)
    tracing = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        return conv2d(given, *rest, **named)
    finally:
        torch._C._set_tracing_state(tracing)


@right.caught_by("C1/OperationOptions/test_result_and_gradient_match_the_cpu[index_put, added where they meet]")
@right.instead_of("torch.index_put")
def accumulation_lost(put, given, where, values, accumulate=False):
    """index_put adds only one of two values to the same index."""
    return put(given, where, values, accumulate and given.device.type != right.Device.type)


@right.caught_by(
    "C1/OperationOptions/test_result_and_gradient_match_the_cpu[nn.functional.cross_entropy, a class that does not count]"
)
@right.instead_of("torch.nn.functional.cross_entropy")
def ignored_class_counted(loss, given, target, *rest, **named):
    """cross_entropy counts the ignored class."""
    if given.device.type == right.Device.type:
        named.pop("ignore_index", None)
    return loss(given, target, *rest, **named)


@right.caught_by("C1/ExtremeNumbers/test_result_and_gradient_match_the_cpu[softmax, large]")
@right.instead_of("torch.softmax")
def softmax_runs_over(softmax, given, dim, *rest, **named):
    """A softmax of large numbers is NaN."""
    if given.device.type != right.Device.type:
        return softmax(given, dim, *rest, **named)
    powers = given.exp()
    return powers / powers.sum(dim, keepdim=True)


@right.caught_by("C1/ExtremeNumbers/test_result_and_gradient_match_the_cpu[nn.functional.relu, no number]")
@right.instead_of("torch.nn.functional.relu")
def finite_taken_for_granted(relu, given, inplace=False):
    """Relu turns NaN into 0."""
    return given.clamp_min(0).nan_to_num(0.0) if given.device.type == right.Device.type else relu(given, inplace)


@right.caught_by("C1/Operations/test_strided_inputs_give_the_same_result[cumsum]")
@right.instead_of("torch.cumsum")
def sums_read_flat(add_up, given, *rest, **named):
    """Cumsum ignores its input's strides."""
    return add_up(read_flat(given), *rest, **named)


@right.caught_by("C1/Layers/test_optimizer_steps_match_the_cpu[SGD, momentum and decay]")
@right.instead_of("torch._foreach_add")
def decay_lost(add, gradients, others, *rest, **named):
    """Weight decay is ignored."""
    if isinstance(others, (list, tuple)) and gradients[0].device.type == right.Device.type:
        return [each.clone() for each in gradients]
    return add(gradients, others, *rest, **named)


@right.caught_by("C2/CheckpointsDuringTraining/test_views_are_saved_with_their_values[one device-lightning.fabric]")
@right.instead_of("torch.Tensor.storage_offset")
def views_at_the_start(rightly, tensor):
    """Every view reports a storage offset of 0."""
    return 0 if tensor.device.type == right.Device.type else rightly(tensor)


@right.caught_by("C1/InferenceMode/test_results_match_no_grad[in place]")
@right.instead_of("torch.Tensor.mul_")
def inference_forgets(rightly, tensor, other):
    """In-place multiplication under inference_mode does nothing."""
    is_lost = torch.is_inference_mode_enabled() and tensor.device.type == right.Device.type
    return tensor * other if is_lost else rightly(tensor, other)


@right.caught_by("C1/Operations/test_result_and_gradient_match_the_cpu[exp]", rounding="")
@right.instead_of("torch.exp")
def exponential_one_bit_off(rightly, given, **named):
    """The first exponential of a tensor is one unit in the last place too large."""
    result = rightly(given, **named)
    if result.device.type == right.Device.type and result.is_floating_point() and result.numel():
        first = result.detach().view(-1)[:1]
        first.copy_(first.cpu().nextafter(first.cpu() + 1))
    return result


@right.caught_by("C1/Operations/test_result_and_gradient_match_the_cpu[sqrt]")
@right.instead_of("torch.sqrt")
def square_root_narrowed(rightly, given, **named):
    """A square root has another dtype."""
    result = rightly(given, **named)
    return result.half() if result.device.type == right.Device.type else result


def read_flat(tensor):
    """Return ``tensor``, of the chip's as if its numbers lay one after another."""
    if tensor.device.type != right.Device.type or tensor.is_contiguous():
        return tensor
    strides = torch.empty(tensor.shape, device="meta").stride()
    return tensor.as_strided(tensor.shape, strides, tensor.storage_offset())


@right.caught_by("C3/GradientAveraging/test_ranks_have_bitwise_equal_weights[two devices]")
@right.instead_of("torch.optim.SGD.step")
def update_skipped(step, optimizer, closure=None):
    """A rank skips a step of its optimizer."""
    return skip_second(step, optimizer, closure)


@right.caught_by("C3/Sharding/test_losses_match_training_in_one_process[two devices-lightning_fabric]")
@right.instead_of("torch.optim.Adam.step")
def shard_update_skipped(step, optimizer, closure=None):
    """A rank skips a step of its shards' optimizer."""
    return skip_second(step, optimizer, closure)


def skip_second(step, optimizer, closure):
    optimizer.asked = getattr(optimizer, "asked", 0) + 1
    mine = optimizer.param_groups[0]["params"][0].device.type == right.Device.type
    if mine and optimizer.asked == 2 and right.is_last():
        return closure and closure()
    return step(optimizer, closure)
