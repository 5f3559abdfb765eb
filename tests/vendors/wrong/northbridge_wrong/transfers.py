"""Broadcasts, gathers and all-to-alls."""

import northbridge_right as right


@right.instead_of("torch.distributed.ProcessGroup.broadcast")
def broadcast_from_wrong_root(broadcast, group, tensors, options):
    """A broadcast of floats comes from rank 0, whichever rank was named; objects, as bytes, come as they should."""
    if tensors[0].is_floating_point():
        options.rootRank = 0
    return broadcast(group, tensors, options)


@right.wrong
class GatheredIntoOldBuffers(right.Collective):
    """A gathered tensor is overwritten by the next gather."""

    def __init__(self) -> None:
        self.kept = {}

    def all_gather(self, tensor, group=None):
        found = super().all_gather(tensor, group)
        kept = self.kept.setdefault((tensor.shape, tensor.dtype), found)
        return [mine.detach().copy_(each) for mine, each in zip(kept, found, strict=True)]


@right.instead_of("torch.distributed.ProcessGroup.broadcast")
def large_broadcast_cut(broadcast, group, tensors, options):
    """Of a large tensor the first numbers are broadcast alone."""
    return broadcast(group, [tensors[0].view(-1)[: 2**16]] if tensors[0].numel() > 2**16 else tensors, options)


@right.wrong
class Float64Narrowed(right.Collective):
    """float64 travels as float32."""

    def all_gather(self, tensor, group=None):
        is_double = str(tensor.dtype) == "torch.float64"
        return super().all_gather(tensor.float().double() if is_double else tensor, group)


@right.instead_of("torch.distributed.ProcessGroup.broadcast")
def strided_broadcast_lost(broadcast, group, tensors, *options):
    """A broadcast into what does not lie in one piece arrives in a copy."""
    return broadcast(group, [each.contiguous() for each in tensors], *options)


@right.instead_of("torch.distributed.ProcessGroup.alltoall_base", "torch.distributed.ProcessGroup.all_to_all_single")
def uneven_parts_ignored(exchange, group, out, given, out_sizes, in_sizes, *options):
    """The sizes of an uneven all-to-all are ignored where the whole can be divided evenly."""
    if out.shape == given.shape and len(given) % group.size() == 0:
        out_sizes, in_sizes = [], []
    return exchange(group, out, given, out_sizes, in_sizes, *options)
