"""Broadcasts, gathers and all-to-alls."""

import northbridge_right as right


@right.caught_by("C3/Transfers/test_broadcast_from_each_rank[two devices]")
@right.instead_of("torch.distributed.ProcessGroup.broadcast")
def broadcast_from_wrong_root(broadcast, group, tensors, options):
    """A broadcast sends from the wrong rank."""
    if tensors[0].is_floating_point():
        options.rootRank = 0
    return broadcast(group, tensors, options)


@right.wrong("C3/Transfers/test_second_all_gather_keeps_the_first_result[two devices]")
class GatheredIntoOldBuffers(right.Collective):
    """Gathered tensors are overwritten by the next gather."""

    def __init__(self) -> None:
        self.kept = {}

    def all_gather(self, tensor, group=None):
        found = super().all_gather(tensor, group)
        kept = self.kept.setdefault((tensor.shape, tensor.dtype), found)
        return [mine.detach().copy_(each) for mine, each in zip(kept, found, strict=True)]


@right.caught_by("C3/Transfers/test_all_gather[gathered-two devices]")
@right.instead_of("torch.distributed.ProcessGroup.allgather")
def gathered_in_reverse(gather, group, outputs, *given):
    """Gathered tensors are in the reverse order of the ranks."""
    return gather(group, [each[::-1] for each in outputs], *given)


@right.caught_by("C3/Transfers/test_broadcast_of_a_large_tensor[two devices]")
@right.instead_of("torch.distributed.ProcessGroup.broadcast")
def large_broadcast_cut(broadcast, group, tensors, options):
    """A large broadcast ends after its first part."""
    return broadcast(group, [tensors[0].view(-1)[: 2**16]] if tensors[0].numel() > 2**16 else tensors, options)


@right.wrong("C3/Transfers/test_all_gather_is_lossless[float64-two devices]")
class Float64Narrowed(right.Collective):
    """float64 is gathered as float32."""

    def all_gather(self, tensor, group=None):
        is_double = str(tensor.dtype) == "torch.float64"
        return super().all_gather(tensor.float().double() if is_double else tensor, group)


@right.caught_by(
    "C3/OptionalCollectives/test_optional_collective_is_right_or_all_ranks_raise[broadcast transposed-two devices]"
)
@right.instead_of("torch.distributed.ProcessGroup.broadcast")
def strided_broadcast_lost(broadcast, group, tensors, *options):
    """A broadcast into a strided tensor is lost."""
    return broadcast(group, [each.contiguous() for each in tensors], *options)


@right.caught_by(
    "C3/OptionalCollectives/test_optional_collective_is_right_or_all_ranks_raise[all to all, uneven-four devices]"
)
@right.instead_of("torch.distributed.ProcessGroup.alltoall_base", "torch.distributed.ProcessGroup.all_to_all_single")
def uneven_parts_ignored(exchange, group, out, given, out_sizes, in_sizes, *options):
    """The sizes of an uneven all-to-all are ignored."""
    if out.shape == given.shape and len(given) % group.size() == 0:
        out_sizes, in_sizes = [], []
    return exchange(group, out, given, out_sizes, in_sizes, *options)
