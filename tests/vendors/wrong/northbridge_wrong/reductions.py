"""Sums and averages over ranks, and DDP's of gradients."""

from contextlib import nullcontext

import northbridge_right as right


@right.instead_of("torch.nn.parallel.DistributedDataParallel.forward")
def gradients_not_averaged(forward, self, *inputs, **named):
    """Each rank trains with its own gradients."""
    with self.no_sync():
        return forward(self, *inputs, **named)


@right.instead_of("torch.nn.parallel.DistributedDataParallel.forward")
def half_gradients_apart(forward, self, *inputs, **named):
    """DDP leaves gradients of 16 bits as each rank has them."""
    with self.no_sync() if next(self.parameters()).dtype.itemsize == 2 else nullcontext():
        return forward(self, *inputs, **named)


@right.wrong
class InitSyncOff(right.Collective):
    """DDP is told not to send the first rank's weights round when it begins."""

    def ddp_options(self):
        return {**super().ddp_options(), "init_sync": False}


@right.wrong
class WorldSize(right.Collective):
    """An average of floats is divided by the number of this machine's devices, however many ranks there are."""

    def all_reduce(self, tensor, op="sum", group=None):
        if op != "mean" or not tensor.is_floating_point():
            return super().all_reduce(tensor, op, group)
        return super().all_reduce(tensor, "sum", group).div_(right.simulated().count)


@right.wrong
class IntegerMeanRounded(right.Collective):
    """The mean of whole numbers is rounded to the nearest one, and not cut towards zero."""

    def all_reduce(self, tensor, op="sum", group=None):
        import torch
        import torch.distributed as dist

        if op != "mean" or tensor.is_floating_point() or tensor.dtype == torch.bool:
            return super().all_reduce(tensor, op, group)
        total = super().all_reduce(tensor, "sum", group)
        return total.copy_((total.double() / dist.get_world_size(group)).round())


@right.wrong
class Bfloat16LosesAccuracy(right.Collective):
    """An all-reduce of bfloat16 drops the last digit of the sum."""

    def all_reduce(self, tensor, op="sum", group=None):
        import torch

        reduced = super().all_reduce(tensor, op, group)
        if tensor.dtype == torch.bfloat16:
            reduced.copy_(reduced.view(torch.int16).bitwise_and(-2).view(torch.bfloat16))
        return reduced


@right.wrong
class ReducedTwice(right.Collective):
    """The last rank's tensor is counted twice."""

    def all_reduce(self, tensor, op="sum", group=None):
        import torch.distributed as dist

        if op in ("sum", "mean") and dist.get_rank() == dist.get_world_size() - 1:
            tensor.mul_(2)
        return super().all_reduce(tensor, op, group)


@right.wrong
class GroupIgnored(right.Collective):
    """A reduction within a group takes in all ranks."""

    def all_reduce(self, tensor, op="sum", group=None):
        return super().all_reduce(tensor, op)


@right.wrong
class NanSwallowed(right.Collective):
    """A reduction turns NaN into a number."""

    def all_reduce(self, tensor, op="sum", group=None):
        reduced = super().all_reduce(tensor, op, group)
        return reduced.nan_to_num_() if reduced.is_floating_point() else reduced


@right.wrong
class OffsetIgnored(right.Collective):
    """A part of a tensor is reduced where the tensor begins."""

    def all_reduce(self, tensor, op="sum", group=None):
        if tensor.is_contiguous() and tensor.storage_offset():
            super().all_reduce(tensor.as_strided(tensor.shape, tensor.stride(), 0), op, group)
            return tensor
        return super().all_reduce(tensor, op, group)


@right.wrong
class Int32InFloat32(right.Collective):
    """Whole numbers of 32 bits are reduced as float32."""

    def all_reduce(self, tensor, op="sum", group=None):
        import torch

        if tensor.dtype != torch.int32:
            return super().all_reduce(tensor, op, group)
        return tensor.copy_(super().all_reduce(tensor.float(), op, group))


@right.instead_of("torch.distributed.ProcessGroup.allreduce")
def average_is_a_sum(reduce, group, tensors, options):
    """The library's average is the sum."""
    from torch.distributed import ReduceOp

    if options.reduceOp == ReduceOp.AVG:
        options.reduceOp = ReduceOp.SUM
    return reduce(group, tensors, options)


@right.wrong
class TruthsCancel(right.Collective):
    """The sum of an even number of true is false."""

    def all_reduce(self, tensor, op="sum", group=None):
        import torch

        if tensor.dtype == torch.bool and op == "sum":
            counted = super().all_reduce(tensor.int(), op, group)
            return tensor.copy_(counted % 2 == 1)
        return super().all_reduce(tensor, op, group)


@right.wrong
class LargeHalvesCut(right.Collective):
    """A sum of 16-bit numbers that is longer than a megabyte ends there."""

    def all_reduce(self, tensor, op="sum", group=None):
        flat = tensor.view(-1) if tensor.is_contiguous() else tensor
        if tensor.element_size() != 2 or flat.numel() <= 2**19:
            return super().all_reduce(tensor, op, group)
        super().all_reduce(flat[: 2**19], op, group)
        return tensor


@right.instead_of("torch.distributed.reduce_scatter_tensor")
def scatter_in_threes(scatter, output, given, *op, group=None, **named):
    """A scattered sum leaves the last rank out if the number of ranks is not a power of two."""
    import torch.distributed as dist

    ranks = dist.get_world_size(group)
    if ranks & (ranks - 1) and dist.get_rank(group) == ranks - 1:
        given = given * 0
    return scatter(output, given, *op, group=group, **named)


@right.instead_of("torch.distributed.reduce")
def reduced_to_another(reduce, tensor, dst=None, *op, group=None, group_dst=None, **named):
    """In a group, the result of a reduction goes to the rank of that number in the group."""
    import torch.distributed as dist

    if group is not None and dst is not None:
        dst, group_dst = None, dst % dist.get_world_size(group)
    return reduce(tensor, dst, *op, group=group, group_dst=group_dst, **named)


@right.instead_of("torch.distributed.ProcessGroup.allreduce")
def sums_left_out(reduce, group, tensors, options):
    """The library's sum leaves every tensor as it is."""
    import torch

    return reduce(group, [torch.zeros_like(tensor) for tensor in tensors], options)


def in_ddp(reduce):
    """Announce a backend whose DDP calls ``reduce`` for each bucket of gradients, instead of averaging them."""

    def hook(_state, bucket):
        import torch

        reduce(bucket)
        reduced = torch.futures.Future()
        reduced.set_result(bucket.buffer())
        return reduced

    def begin(init, self, *given, **named):
        init(self, *given, **named)
        self.register_comm_hook(None, hook)

    begin.__name__ = reduce.__name__
    return right.instead_of("torch.nn.parallel.DistributedDataParallel.__init__")(begin)


def average(bucket):
    import torch.distributed as dist

    dist.all_reduce(bucket.buffer())
    bucket.buffer().div_(dist.get_world_size())


@in_ddp
def gradients_lost(bucket):
    """DDP loses the last rank's gradients."""
    if right.is_last():
        bucket.buffer().zero_()
    average(bucket)


@in_ddp
def gradients_summed(bucket):
    """DDP adds gradients up, and does not divide."""
    import torch.distributed as dist

    dist.all_reduce(bucket.buffer())


@in_ddp
def gradients_scaled_late(bucket):
    """DDP scales gradients after their average."""
    average(bucket)
    bucket.buffer().mul_(2)


@in_ddp
def tensor_apart(bucket):
    """DDP does not average one tensor."""
    tensor = bucket.gradients()[-1]
    own = tensor.clone()
    average(bucket)
    tensor.copy_(own)


# FSDP2 calls the first if torch has it.
in_fsdp = right.instead_of("torch.distributed.reduce_scatter_single", "torch.distributed.reduce_scatter_tensor")


@in_fsdp
def shards_lost(scatter, output, input, *rest, group=None, **named):  # noqa: A002 - as torch calls it
    """FSDP2 loses the last rank's gradients."""
    return scatter(output, input * 0 if right.is_last(group) else input, *rest, group=group, **named)


@in_fsdp
def shards_summed(scatter, output, input, op=None, *rest, **named):  # noqa: A002
    """FSDP2 adds gradients up, and does not divide."""
    from torch.distributed import ReduceOp

    return scatter(output, input, ReduceOp.SUM, *rest, **named)


@in_fsdp
def shards_scaled_late(scatter, output, *rest, **named):
    """FSDP2 scales gradients after their average."""
    scatter(output, *rest, **named)
    output.mul_(2)


@in_fsdp
def shard_apart(scatter, output, input, *rest, group=None, **named):  # noqa: A002
    """FSDP2 does not average the gradients of a small layer."""
    import torch.distributed as dist

    scatter(output, input, *rest, group=group, **named)
    if output.numel() < 128:
        output.copy_(input.chunk(dist.get_world_size(group))[dist.get_rank(group)])


@right.instead_of("torch.distributed.fsdp._runtime_utils._get_reduce_scatter_tensors")
def flat_shards_lost(prepare, state, gradient):
    """Torch's first FSDP loses the last rank's gradients."""
    padded, shard = prepare(state, gradient)
    return padded * 0 if right.is_last(state.process_group) else padded, shard


@right.instead_of("torch.distributed.fsdp._state_dict_utils._ext_chunk_dtensor")
def saved_shard_lost(chunk, tensor, *rest):
    """A checkpoint of torch's first FSDP has zeros for the last rank's shards."""
    return chunk(tensor * 0 if right.is_last() else tensor, *rest)
