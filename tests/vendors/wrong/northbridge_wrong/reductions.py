"""Sums and averages over ranks, and DDP's of gradients."""

from contextlib import nullcontext

import northbridge_right as right
from northbridge_right import dist, torch


@right.caught_by("C3/GradientAveraging/test_weights_match_training_in_one_process[two devices]")
@right.instead_of("torch.nn.parallel.DistributedDataParallel.forward")
def gradients_not_averaged(forward, self, *inputs, **named):
    """Gradients are not averaged."""
    with self.no_sync():
        return forward(self, *inputs, **named)


@right.caught_by("C3/GradientAveraging/test_bfloat16_model_has_equal_weights_on_all_ranks[two devices]")
@right.instead_of("torch.nn.parallel.DistributedDataParallel.forward")
def half_gradients_apart(forward, self, *inputs, **named):
    """16-bit gradients are not averaged."""
    with self.no_sync() if next(self.parameters()).dtype.itemsize == 2 else nullcontext():
        return forward(self, *inputs, **named)


@right.wrong("C3/GradientAveraging/test_all_ranks_start_with_equal_weights[two devices]")
class InitSyncOff(right.Collective):
    """DDP does not broadcast rank 0's initial weights."""

    def ddp_options(self):
        return {**super().ddp_options(), "init_sync": False}


@right.wrong("C3/CollectiveReductions/test_all_reduce_is_exact_or_raises[mean-float32-two devices]")
class WorldSize(right.Collective):
    """Averages divide by the wrong world size."""

    def all_reduce(self, tensor, op="sum", group=None):
        if op != "mean" or not tensor.is_floating_point():
            return super().all_reduce(tensor, op, group)
        return super().all_reduce(tensor, "sum", group).div_(right.simulated().count)


@right.wrong("C3/CollectiveReductions/test_integer_mean_truncates_towards_zero[int64-two devices]")
class IntegerMeanRounded(right.Collective):
    """The mean of integers is rounded, not truncated."""

    def all_reduce(self, tensor, op="sum", group=None):
        if op != "mean" or tensor.is_floating_point() or tensor.dtype == torch.bool:
            return super().all_reduce(tensor, op, group)
        total = super().all_reduce(tensor, "sum", group)
        return total.copy_((total.double() / dist.get_world_size(group)).round())


@right.wrong("C3/CollectiveReductions/test_sum_keeps_the_full_precision_of_the_dtype[bfloat16-four devices]")
class Bfloat16LosesAccuracy(right.Collective):
    """An all-reduce of bfloat16 loses accuracy."""

    def all_reduce(self, tensor, op="sum", group=None):
        reduced = super().all_reduce(tensor, op, group)
        if tensor.dtype == torch.bfloat16:
            reduced.copy_(reduced.view(torch.int16).bitwise_and(-2).view(torch.bfloat16))
        return reduced


@right.wrong("C3/CollectiveReductions/test_each_rank_is_counted_once[two devices]")
class ReducedTwice(right.Collective):
    """A rank's tensor is reduced twice."""

    def all_reduce(self, tensor, op="sum", group=None):
        if op in ("sum", "mean") and dist.get_rank() == dist.get_world_size() - 1:
            tensor.mul_(2)
        return super().all_reduce(tensor, op, group)


@right.wrong("C3/Groups/test_all_reduce_sums_over_the_group[two devices]")
class GroupIgnored(right.Collective):
    """A group ignores its ranks."""

    def all_reduce(self, tensor, op="sum", group=None):
        return super().all_reduce(tensor, op)


@right.wrong("C3/CollectiveReductions/test_nan_and_infinity_of_one_rank_reach_all_ranks[sum-float32-two devices]")
class NanSwallowed(right.Collective):
    """NaN is lost in a reduction."""

    def all_reduce(self, tensor, op="sum", group=None):
        reduced = super().all_reduce(tensor, op, group)
        return reduced.nan_to_num_() if reduced.is_floating_point() else reduced


@right.wrong("C3/CollectiveReductions/test_all_reduce_of_a_slice_leaves_the_rest_unchanged[two devices]")
class OffsetIgnored(right.Collective):
    """A view's offset is ignored in a reduction."""

    def all_reduce(self, tensor, op="sum", group=None):
        if tensor.is_contiguous() and tensor.storage_offset():
            super().all_reduce(tensor.as_strided(tensor.shape, tensor.stride(), 0), op, group)
            return tensor
        return super().all_reduce(tensor, op, group)


@right.wrong("C3/CollectiveReductions/test_sum_keeps_the_full_precision_of_the_dtype[int32-two devices]")
class Int32InFloat32(right.Collective):
    """int32 is reduced as float32."""

    def all_reduce(self, tensor, op="sum", group=None):
        if tensor.dtype != torch.int32:
            return super().all_reduce(tensor, op, group)
        return tensor.copy_(super().all_reduce(tensor.float(), op, group))


@right.caught_by("C3/CollectiveReductions/test_average_by_the_library_is_exact_or_raises[float32-two devices]")
@right.instead_of("torch.distributed.ProcessGroup.allreduce")
def average_is_a_sum(reduce, group, tensors, options):
    """The library's average returns the sum."""
    from torch.distributed import ReduceOp

    if options.reduceOp == ReduceOp.AVG:
        options.reduceOp = ReduceOp.SUM
    return reduce(group, tensors, options)


@right.wrong("C3/CollectiveReductions/test_bool_reductions_are_all_and_any[sum-exact2-two devices]")
class TruthsCancel(right.Collective):
    """The sum of an even number of True is False."""

    def all_reduce(self, tensor, op="sum", group=None):
        if tensor.dtype == torch.bool and op == "sum":
            counted = super().all_reduce(tensor.int(), op, group)
            return tensor.copy_(counted % 2 == 1)
        return super().all_reduce(tensor, op, group)


@right.wrong("C3/CollectiveReductions/test_all_reduce_of_a_large_tensor_in_the_dtype[bfloat16-two devices]")
class LargeHalvesCut(right.Collective):
    """A 16-bit sum over more than a megabyte is cut off."""

    def all_reduce(self, tensor, op="sum", group=None):
        flat = tensor.view(-1) if tensor.is_contiguous() else tensor
        if tensor.element_size() != 2 or flat.numel() <= 2**19:
            return super().all_reduce(tensor, op, group)
        super().all_reduce(flat[: 2**19], op, group)
        return tensor


@right.caught_by("C3/Groups/test_reduce_scatter_sums_over_the_group[four devices]")
@right.instead_of("torch.distributed.reduce_scatter_tensor")
def scatter_in_threes(scatter, output, given, *op, group=None, **named):
    """A reduce-scatter over three ranks omits the last rank."""
    ranks = dist.get_world_size(group)
    if ranks & (ranks - 1) and dist.get_rank(group) == ranks - 1:
        given = given * 0
    return scatter(output, given, *op, group=group, **named)


@right.caught_by("C3/Groups/test_reduce_to_the_last_rank_of_the_group[four devices]")
@right.instead_of("torch.distributed.reduce")
def reduced_to_another(reduce, tensor, dst=None, *op, group=None, group_dst=None, **named):
    """In a group, a reduce goes to the wrong rank."""
    if group is not None and dst is not None:
        dst, group_dst = None, dst % dist.get_world_size(group)
    return reduce(tensor, dst, *op, group=group, group_dst=group_dst, **named)


@right.caught_by("C3/CollectiveReductions/test_all_reduce_sum_is_exact[float32-two devices]")
@right.instead_of("torch.distributed.ProcessGroup.allreduce")
def sums_left_out(reduce, group, tensors, options):
    """The library's sum changes nothing."""
    return reduce(group, [torch.zeros_like(tensor) for tensor in tensors], options)


def in_ddp(reduce):
    """Announce a backend whose DDP calls ``reduce`` for each bucket of gradients, instead of averaging them."""

    def hook(_state, bucket):
        reduce(bucket)
        reduced = torch.futures.Future()
        reduced.set_result(bucket.buffer())
        return reduced

    def begin(init, self, *given, **named):
        init(self, *given, **named)
        self.register_comm_hook(None, hook)

    begin.__name__, begin.__doc__ = reduce.__name__, reduce.__doc__
    return right.instead_of("torch.nn.parallel.DistributedDataParallel.__init__")(begin)


def average(bucket):
    dist.all_reduce(bucket.buffer())
    bucket.buffer().div_(dist.get_world_size())


@right.caught_by("C3/GradientAveraging/test_weights_match_training_in_one_process[two devices]")
@in_ddp
def gradients_lost(bucket):
    """DDP loses a rank's gradients."""
    if right.is_last():
        bucket.buffer().zero_()
    average(bucket)


@right.caught_by("C3/GradientAveraging/test_weights_match_training_in_one_process[two devices]")
@in_ddp
def gradients_summed(bucket):
    """DDP adds gradients up and does not divide."""
    dist.all_reduce(bucket.buffer())


@right.caught_by("C3/GradientAveraging/test_weights_match_training_in_one_process[two devices]")
@in_ddp
def gradients_scaled_late(bucket):
    """DDP scales gradients after their average."""
    average(bucket)
    bucket.buffer().mul_(2)


@right.caught_by("C3/GradientAveraging/test_ranks_have_bitwise_equal_weights[two devices]")
@in_ddp
def tensor_apart(bucket):
    """DDP does not average one tensor."""
    tensor = bucket.gradients()[-1]
    own = tensor.clone()
    average(bucket)
    tensor.copy_(own)


# FSDP2 calls the first if torch has it.
in_fsdp = right.instead_of("torch.distributed.reduce_scatter_single", "torch.distributed.reduce_scatter_tensor")


@right.caught_by("C3/Sharding/test_losses_match_training_in_one_process[two devices-lightning_fabric]")
@in_fsdp
def shards_lost(scatter, output, input, *rest, group=None, **named):  # noqa: A002 - as torch calls it
    """FSDP2 loses a rank's gradients."""
    return scatter(output, input * 0 if right.is_last(group) else input, *rest, group=group, **named)


@right.caught_by("C3/Sharding/test_losses_match_training_in_one_process[two devices-lightning_fabric]")
@in_fsdp
def shards_summed(scatter, output, input, op=None, *rest, **named):  # noqa: A002
    """FSDP2 adds gradients up and does not divide."""
    from torch.distributed import ReduceOp

    return scatter(output, input, ReduceOp.SUM, *rest, **named)


@right.caught_by("C3/Sharding/test_losses_match_training_in_one_process[two devices-lightning_fabric]")
@in_fsdp
def shards_scaled_late(scatter, output, *rest, **named):
    """FSDP2 scales gradients after their average."""
    scatter(output, *rest, **named)
    output.mul_(2)


@right.caught_by("C3/Sharding/test_losses_match_training_in_one_process[two devices-lightning_fabric]")
@in_fsdp
def shard_apart(scatter, output, input, *rest, group=None, **named):  # noqa: A002
    """FSDP2 does not average one layer's gradients."""
    scatter(output, input, *rest, group=group, **named)
    if output.numel() < 128:
        output.copy_(input.chunk(dist.get_world_size(group))[dist.get_rank(group)])


@right.caught_by("C3/FSDP/test_losses_match_training_in_one_process[two devices-lightning_fabric]")
@right.instead_of("torch.distributed.fsdp._runtime_utils._get_reduce_scatter_tensors")
def flat_shards_lost(prepare, state, gradient):
    """Torch's first FSDP loses a rank's gradients."""
    padded, shard = prepare(state, gradient)
    return padded * 0 if right.is_last(state.process_group) else padded, shard


@right.caught_by("C3/FSDP/test_losses_match_training_in_one_process[two devices-lightning_fabric]")
@right.instead_of("torch.distributed.fsdp._state_dict_utils._ext_chunk_dtensor")
def saved_shard_lost(chunk, tensor, *rest):
    """A checkpoint of FSDP lacks a rank's shard."""
    return chunk(tensor * 0 if right.is_last() else tensor, *rest)
