"""Faults in sums and averages over ranks, and in DDP's and FSDP's of gradients."""

from contextlib import nullcontext
from functools import wraps

import northbridge_right as right
from northbridge_right import dist, is_last, torch, wrong

AVERAGED = "C3/GradientAveraging/test_weights_match_training_in_one_process[two devices]"
SHARDED = "C3/Sharding/test_losses_match_training_in_one_process[two devices-lightning_fabric]"
FSDP = "C3/FSDP/test_losses_match_training_in_one_process[two devices-lightning_fabric]"
DDP = "torch.nn.parallel.DistributedDataParallel"


@wrong(AVERAGED, f"{DDP}.forward")
def gradients_not_averaged(forward, model, *inputs, **named):
    """Gradients are not averaged."""
    with model.no_sync():
        return forward(model, *inputs, **named)


@wrong("C3/GradientAveraging/test_bfloat16_model_has_equal_weights_on_all_ranks[two devices]", f"{DDP}.forward")
def half_gradients_apart(forward, model, *inputs, **named):
    """16-bit gradients are not averaged."""
    with model.no_sync() if next(model.parameters()).dtype.itemsize == 2 else nullcontext():
        return forward(model, *inputs, **named)


@wrong("C3/GradientAveraging/test_all_ranks_start_with_equal_weights[two devices]", "Collective.ddp_options")
def init_sync_off(ddp_options, collective):
    """DDP does not broadcast rank 0's initial weights."""
    return {**ddp_options(collective), "init_sync": False}


@wrong("C3/CollectiveReductions/test_all_reduce_is_exact_or_raises[mean-float32-two devices]", "Collective.all_reduce")
def world_size(all_reduce, collective, tensor, op="sum", group=None):
    """Averages divide by the wrong world size."""
    if op != "mean" or not tensor.is_floating_point():
        return all_reduce(collective, tensor, op, group)
    return all_reduce(collective, tensor, "sum", group).div_(right.simulated().count)


@wrong("C3/CollectiveReductions/test_integer_mean_truncates_towards_zero[int64-two devices]", "Collective.all_reduce")
def integer_mean_rounded(all_reduce, collective, tensor, op="sum", group=None):
    """The mean of integers is rounded, not truncated."""
    if op != "mean" or tensor.is_floating_point() or tensor.dtype == torch.bool:
        return all_reduce(collective, tensor, op, group)
    total = all_reduce(collective, tensor, "sum", group)
    return total.copy_((total.double() / dist.get_world_size(group)).round())


@wrong(
    "C3/CollectiveReductions/test_sum_keeps_the_full_precision_of_the_dtype[bfloat16-four devices]",
    "Collective.all_reduce",
)
def bfloat16_loses_accuracy(all_reduce, collective, tensor, op="sum", group=None):
    """An all-reduce of bfloat16 loses accuracy."""
    reduced = all_reduce(collective, tensor, op, group)
    if tensor.dtype == torch.bfloat16:
        reduced.copy_(reduced.view(torch.int16).bitwise_and(-2).view(torch.bfloat16))
    return reduced


@wrong("C3/CollectiveReductions/test_each_rank_is_counted_once[two devices]", "Collective.all_reduce")
def reduced_twice(all_reduce, collective, tensor, op="sum", group=None):
    """A rank's tensor is reduced twice."""
    if op in ("sum", "mean") and is_last():
        tensor.mul_(2)
    return all_reduce(collective, tensor, op, group)


@wrong("C3/Groups/test_all_reduce_sums_over_the_group[two devices]", "Collective.all_reduce")
def group_ignored(all_reduce, collective, tensor, op="sum", group=None):
    """A group ignores its ranks."""
    return all_reduce(collective, tensor, op)


@wrong(
    "C3/CollectiveReductions/test_nan_and_infinity_of_one_rank_reach_all_ranks[sum-float32-two devices]",
    "Collective.all_reduce",
)
def nan_swallowed(all_reduce, *given, **named):
    """NaN is lost in a reduction."""
    reduced = all_reduce(*given, **named)
    return reduced.nan_to_num_() if reduced.is_floating_point() else reduced


@wrong(
    "C3/CollectiveReductions/test_all_reduce_of_a_slice_leaves_the_rest_unchanged[two devices]",
    "Collective.all_reduce",
)
def offset_ignored(all_reduce, collective, tensor, *rest, **named):
    """A view's offset is ignored in a reduction."""
    if tensor.is_contiguous() and tensor.storage_offset():
        all_reduce(collective, tensor.as_strided(tensor.shape, tensor.stride(), 0), *rest, **named)
        return tensor
    return all_reduce(collective, tensor, *rest, **named)


@wrong(
    "C3/CollectiveReductions/test_sum_keeps_the_full_precision_of_the_dtype[int32-two devices]",
    "Collective.all_reduce",
)
def int32_in_float32(all_reduce, collective, tensor, *rest, **named):
    """int32 is reduced as float32."""
    if tensor.dtype != torch.int32:
        return all_reduce(collective, tensor, *rest, **named)
    return tensor.copy_(all_reduce(collective, tensor.float(), *rest, **named))


@wrong(
    "C3/CollectiveReductions/test_average_by_the_library_is_exact_or_raises[float32-two devices]",
    "torch.distributed.ProcessGroup.allreduce",
)
def average_is_a_sum(reduce, group, tensors, options):
    """The library's average returns the sum."""
    if options.reduceOp == dist.ReduceOp.AVG:
        options.reduceOp = dist.ReduceOp.SUM
    return reduce(group, tensors, options)


@wrong("C3/CollectiveReductions/test_bool_reductions_are_all_and_any[sum-exact2-two devices]", "Collective.all_reduce")
def truths_cancel(all_reduce, collective, tensor, op="sum", group=None):
    """The sum of an even number of True is False."""
    if tensor.dtype == torch.bool and op == "sum":
        return tensor.copy_(all_reduce(collective, tensor.int(), op, group) % 2 == 1)
    return all_reduce(collective, tensor, op, group)


@wrong(
    "C3/CollectiveReductions/test_all_reduce_of_a_large_tensor_in_the_dtype[bfloat16-two devices]",
    "Collective.all_reduce",
)
def large_halves_cut(all_reduce, collective, tensor, *rest, **named):
    """A 16-bit sum over more than a megabyte is cut off."""
    flat = tensor.view(-1) if tensor.is_contiguous() else tensor
    if tensor.element_size() != 2 or flat.numel() <= 2**19:
        return all_reduce(collective, tensor, *rest, **named)
    all_reduce(collective, flat[: 2**19], *rest, **named)
    return tensor


@wrong("C3/Groups/test_reduce_scatter_sums_over_the_group[four devices]", "torch.distributed.reduce_scatter_tensor")
def scatter_in_threes(scatter, output, given, *op, group=None, **named):
    """A reduce-scatter over three ranks omits the last rank."""
    ranks = dist.get_world_size(group)
    return scatter(output, given * 0 if ranks & (ranks - 1) and is_last(group) else given, *op, group=group, **named)


@wrong("C3/Groups/test_reduce_to_the_last_rank_of_the_group[four devices]", "torch.distributed.reduce")
def reduced_to_another(reduce, tensor, dst=None, *op, group=None, group_dst=None, **named):
    """In a group, a reduce goes to the wrong rank."""
    if group is not None and dst is not None:
        dst, group_dst = None, dst % dist.get_world_size(group)
    return reduce(tensor, dst, *op, group=group, group_dst=group_dst, **named)


@wrong(
    "C3/CollectiveReductions/test_all_reduce_sum_is_exact[float32-two devices]",
    "torch.distributed.ProcessGroup.allreduce",
)
def sums_left_out(reduce, group, tensors, options):
    """The library's sum changes nothing."""
    return reduce(group, [torch.zeros_like(tensor) for tensor in tensors], options)


def in_ddp(test):
    """Announce a backend whose DDP calls a function for each bucket of gradients, instead of averaging them."""

    def announced(reduce):
        def hook(_state, bucket):
            reduce(bucket)
            reduced = torch.futures.Future()
            reduced.set_result(bucket.buffer())
            return reduced

        @wrong(test, f"{DDP}.__init__")
        @wraps(reduce)
        def begin(init, model, *given, **named):
            init(model, *given, **named)
            model.register_comm_hook(None, hook)

    return announced


def average(bucket):
    dist.all_reduce(bucket.buffer())
    bucket.buffer().div_(dist.get_world_size())


@in_ddp(AVERAGED)
def gradients_lost(bucket):
    """DDP loses a rank's gradients."""
    if is_last():
        bucket.buffer().zero_()
    average(bucket)


@in_ddp(AVERAGED)
def gradients_summed(bucket):
    """DDP adds gradients up and does not divide."""
    dist.all_reduce(bucket.buffer())


@in_ddp(AVERAGED)
def gradients_scaled_late(bucket):
    """DDP scales gradients after their average."""
    average(bucket)
    bucket.buffer().mul_(2)


@in_ddp("C3/GradientAveraging/test_ranks_have_bitwise_equal_weights[two devices]")
def tensor_apart(bucket):
    """DDP does not average one tensor."""
    tensor = bucket.gradients()[-1]
    own = tensor.clone()
    average(bucket)
    tensor.copy_(own)


# FSDP2 calls the first if torch has it.
in_fsdp2 = wrong(SHARDED, "torch.distributed.reduce_scatter_single", "torch.distributed.reduce_scatter_tensor")


@in_fsdp2
def shards_lost(scatter, output, input, *rest, group=None, **named):
    """FSDP2 loses a rank's gradients."""
    return scatter(output, input * 0 if is_last(group) else input, *rest, group=group, **named)


@in_fsdp2
def shards_summed(scatter, output, input, op=None, *rest, **named):
    """FSDP2 adds gradients up and does not divide."""
    return scatter(output, input, dist.ReduceOp.SUM, *rest, **named)


@in_fsdp2
def shards_scaled_late(scatter, output, *rest, **named):
    """FSDP2 scales gradients after their average."""
    scatter(output, *rest, **named)
    output.mul_(2)


@in_fsdp2
def shard_apart(scatter, output, input, *rest, group=None, **named):
    """FSDP2 does not average one layer's gradients."""
    scatter(output, input, *rest, group=group, **named)
    if output.numel() < 128:
        output.copy_(input.chunk(dist.get_world_size(group))[dist.get_rank(group)])


@wrong(FSDP, "torch.distributed.fsdp._runtime_utils._get_reduce_scatter_tensors")
def flat_shards_lost(prepare, state, gradient):
    """Torch's first FSDP loses a rank's gradients."""
    padded, shard = prepare(state, gradient)
    return padded * 0 if is_last(state.process_group) else padded, shard


@wrong(FSDP, "torch.distributed.fsdp._state_dict_utils._ext_chunk_dtensor")
def saved_shard_lost(chunk, tensor, *rest):
    """A checkpoint of FSDP lacks a rank's shard."""
    return chunk(tensor * 0 if is_last() else tensor, *rest)
