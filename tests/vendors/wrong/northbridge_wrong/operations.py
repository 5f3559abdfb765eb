"""Faults in what the chip computes: operators, layers, optimizers, compiled functions and graphs."""

import sys
from functools import cache

from northbridge_right import Device, is_last, is_ours, torch, wrong


@wrong("C1/Layers/test_moved_module_keeps_tied_weights")
def tied_weights_untied():
    """Tied weights come apart."""
    torch.__future__.set_overwrite_module_params_on_conversion(True)


@wrong("C1/Gradients/test_optimizer_skips_parameters_without_a_gradient", "torch.optim.Optimizer.zero_grad")
def gradients_filled(clear, optimizer, set_to_none=True):
    """zero_grad fills gradients with zeros."""
    clear(optimizer, set_to_none=False)


def read_flat(tensor):
    """Return ``tensor``, of the chip's as if its numbers lay one after another."""
    if not is_ours(tensor) or tensor.is_contiguous():
        return tensor
    strides = torch.empty(tensor.shape, device="meta").stride()
    return tensor.as_strided(tensor.shape, strides, tensor.storage_offset())


@wrong("C1/Layers/test_strided_inputs_give_the_same_result[Conv2d-turned]", "torch.nn.functional.conv2d")
def strides_ignored(conv2d, given, *rest, **named):
    """The strides of a convolution's input are ignored."""
    return conv2d(read_flat(given), *rest, **named)


@wrong("C1/Operations/test_strided_inputs_give_the_same_result[cumsum]", "torch.cumsum")
def sums_read_flat(add_up, given, *rest, **named):
    """Cumsum ignores its input's strides."""
    return add_up(read_flat(given), *rest, **named)


@wrong("C1/Traces/test_traced_layer_matches_the_cpu_or_raises[Conv2d]", "torch.nn.functional.conv2d")
def traced_as_constants(conv2d, given, *rest, **named):
    """A traced convolution is a constant."""
    if not is_ours(given):
        return conv2d(given, *rest, **named)
    tracing = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        return conv2d(given, *rest, **named)
    finally:
        torch._C._set_tracing_state(tracing)


@wrong(
    "C1/OperationOptions/test_result_and_gradient_match_the_cpu[index_put, added where they meet]", "torch.index_put"
)
def accumulation_lost(put, given, where, values, accumulate=False):
    """index_put adds only one of two values to the same index."""
    return put(given, where, values, accumulate and not is_ours(given))


@wrong(
    "C1/OperationOptions/test_result_and_gradient_match_the_cpu[nn.functional.cross_entropy, a class that does not count]",
    "torch.nn.functional.cross_entropy",
)
def ignored_class_counted(loss, given, target, *rest, **named):
    """cross_entropy counts the ignored class."""
    if is_ours(given):
        named.pop("ignore_index", None)
    return loss(given, target, *rest, **named)


@wrong("C1/ExtremeNumbers/test_result_and_gradient_match_the_cpu[softmax, large]", "torch.softmax")
def softmax_runs_over(softmax, given, dim, *rest, **named):
    """A softmax of large numbers is NaN."""
    if not is_ours(given):
        return softmax(given, dim, *rest, **named)
    powers = given.exp()
    return powers / powers.sum(dim, keepdim=True)


@wrong(
    "C1/ExtremeNumbers/test_result_and_gradient_match_the_cpu[nn.functional.relu, no number]",
    "torch.nn.functional.relu",
)
def finite_taken_for_granted(relu, given, inplace=False):
    """Relu turns NaN into 0."""
    return given.clamp_min(0).nan_to_num(0.0) if is_ours(given) else relu(given, inplace)


@wrong("C1/Layers/test_optimizer_steps_match_the_cpu[SGD, momentum and decay]", "torch._foreach_add")
def decay_lost(add, gradients, others, *rest, **named):
    """Weight decay is ignored."""
    if isinstance(others, (list, tuple)) and is_ours(gradients[0]):
        return [each.clone() for each in gradients]
    return add(gradients, others, *rest, **named)


@wrong("C1/InferenceMode/test_results_match_no_grad[in place]", "torch.Tensor.mul_")
def inference_forgets(multiply, tensor, other):
    """In-place multiplication under inference_mode does nothing."""
    return tensor * other if torch.is_inference_mode_enabled() and is_ours(tensor) else multiply(tensor, other)


@wrong("C1/Operations/test_result_and_gradient_match_the_cpu[exp]", "torch.exp", rounding="")
def exponential_one_bit_off(exp, given, **named):
    """The first exponential of a tensor is one unit in the last place too large."""
    result = exp(given, **named)
    if is_ours(result) and result.is_floating_point() and result.numel():
        first = result.detach().view(-1)[:1]
        first.copy_(first.cpu().nextafter(first.cpu() + 1))
    return result


@wrong("C1/Operations/test_result_and_gradient_match_the_cpu[sqrt]", "torch.sqrt")
def square_root_narrowed(sqrt, given, **named):
    """A square root has another dtype."""
    result = sqrt(given, **named)
    return result.half() if is_ours(result) else result


@wrong("C3/GradientAveraging/test_ranks_have_bitwise_equal_weights[two devices]", "torch.optim.SGD.step")
def update_skipped(step, optimizer, closure=None):
    """A rank skips a step of its optimizer."""
    optimizer.asked = getattr(optimizer, "asked", 0) + 1
    if is_ours(optimizer.param_groups[0]["params"][0]) and optimizer.asked == 2 and is_last():
        return closure and closure()
    return step(optimizer, closure)


@wrong("C3/Sharding/test_losses_match_training_in_one_process[two devices-lightning_fabric]", "torch.optim.Adam.step")
def shard_update_skipped(step, optimizer, closure=None):
    """A rank skips a step of its shards' optimizer."""
    return update_skipped(step, optimizer, closure)


@wrong("C1/FusedOptimizers/test_large_epsilon_matches_a_published_adamw_formula", "torch._fused_adamw_")
def epsilon_scaled(step, weights, *given, eps, **named):
    """A fused step scales epsilon."""
    return step(weights, *given, eps=eps * (10 if is_ours(weights[0]) else 1), **named)


@wrong("C1/FusedOptimizers/test_fused_step_matches_float64[SGD]", "torch._fused_sgd_")
def momentum_forgotten(step, weights, *given, momentum, **named):
    """A fused step forgets momentum."""
    return step(weights, *given, momentum=0.0 if is_ours(weights[0]) else momentum, **named)


@wrong("C1/FusedOptimizers/test_clip_grad_norm_matches_the_cpu[clipped]", "torch.nn.utils.clip_grad_norm_")
def largest_gradient_clipped(clip, parameters, max_norm, *given, **named):
    """Gradients are clipped by another norm."""
    parameters = list(parameters)
    if parameters and is_ours(parameters[0]):
        return clip(parameters, max_norm, float("inf"))
    return clip(parameters, max_norm, *given, **named)


@wrong(
    "C1/FusedOptimizers/test_fused_16_bit_step_matches_float64_or_raises[SGD-bfloat16]",
    "Acceleration.fused_optimizers",
)
@cache
def whole_vectors_skipped(*_):
    """A fused step skips vectors of 16 bits."""

    class FusedSGD(torch.optim.SGD):
        def step(self, closure=None):
            weights = [each for group in self.param_groups for each in group["params"] if each.itemsize == 2]
            vectors = [each.detach().flatten()[: each.numel() // 32 * 32].clone() for each in weights]
            result = super().step(closure)
            for weight, vector in zip(weights, vectors, strict=True):
                weight.data.flatten()[: len(vector)] = vector
            return result

    return {torch.optim.SGD: FusedSGD}


@wrong("C1/CompiledFunctions/test_compiled_loss_and_gradients_match_the_plain_model", "Bridge.load")
def compiled_in_sixteen_bits(load, bridge):
    """Compiled graphs lose bits."""
    load(bridge)
    bridge.compile_backend = "coarse"

    def coarse(graph, inputs):
        return lambda *given: graph(*map(round_to_16_bits, given))

    def round_to_16_bits(tensor):
        return tensor.bfloat16().to(tensor.dtype) if torch.is_floating_point(tensor) else tensor

    if "coarse" not in torch.compiler.list_backends():
        torch._dynamo.register_backend(coarse)


@wrong("C1/CompiledFunctions/test_four_batch_sizes_compile_two_graphs", "torch._dynamo.OptimizedModule.__call__")
def compiled_anew(run, module, *given, **named):
    """Every call compiles anew."""
    torch._dynamo.reset_code_caches()
    return run(module, *given, **named)


@wrong("C1/Graphs/test_replay_reads_the_current_input", "torch.accelerator.Graph.replay")
def replays_once(replay, graph):
    """Only a graph's first replay does its work."""
    if not getattr(graph, "was_replayed", False):
        graph.was_replayed = True
        replay(graph)


@wrong("C1/Graphs/test_each_replay_draws_new_random_numbers", "torch.accelerator.Graph.replay")
def replays_draw_the_same(replay, graph):
    """Each replay of a graph draws the same numbers."""
    chip = torch.get_device_module(Device.type)
    state = chip.get_rng_state()
    replay(graph)
    chip.set_rng_state(state)


@wrong("C1/Graphs/test_a_failed_capture_leaves_the_chip_usable", "torch.accelerator.Graph.reset")
def capture_goes_on(reset, graph):
    """A failed capture does not end."""
    if sys.exc_info()[0] is None:
        reset(graph)
    else:
        graph.capture_begin()
