"""Faults in broadcasts, gathers and all-to-alls, barriers, time limits, and how ranks meet."""

import os
import socket
import tempfile

from northbridge_right import dist, wrong


@wrong("C3/Transfers/test_broadcast_from_each_rank[two devices]", "torch.distributed.ProcessGroup.broadcast")
def broadcast_from_wrong_root(broadcast, group, tensors, options):
    """A broadcast sends from the wrong rank."""
    if tensors[0].is_floating_point():
        options.rootRank = 0
    return broadcast(group, tensors, options)


old_buffers = {}


@wrong("C3/Transfers/test_second_all_gather_keeps_the_first_result[two devices]", "Collective.all_gather")
def gathered_into_old_buffers(all_gather, collective, tensor, group=None):
    """Gathered tensors are overwritten by the next gather."""
    found = all_gather(collective, tensor, group)
    kept = old_buffers.setdefault((tensor.shape, tensor.dtype), found)
    return [mine.detach().copy_(each) for mine, each in zip(kept, found, strict=True)]


@wrong("C3/Transfers/test_all_gather[gathered-two devices]", "torch.distributed.ProcessGroup.allgather")
def gathered_in_reverse(gather, group, outputs, *given):
    """Gathered tensors are in the reverse order of the ranks."""
    return gather(group, [each[::-1] for each in outputs], *given)


@wrong("C3/Transfers/test_broadcast_of_a_large_tensor[two devices]", "torch.distributed.ProcessGroup.broadcast")
def large_broadcast_cut(broadcast, group, tensors, options):
    """A large broadcast ends after its first part."""
    return broadcast(group, [tensors[0].view(-1)[: 2**16]] if tensors[0].numel() > 2**16 else tensors, options)


@wrong("C3/Transfers/test_all_gather_is_lossless[float64-two devices]", "Collective.all_gather")
def float64_narrowed(all_gather, collective, tensor, group=None):
    """float64 is gathered as float32."""
    is_double = str(tensor.dtype) == "torch.float64"
    return all_gather(collective, tensor.float().double() if is_double else tensor, group)


@wrong(
    "C3/OptionalCollectives/test_optional_collective_is_right_or_all_ranks_raise[broadcast transposed-two devices]",
    "torch.distributed.ProcessGroup.broadcast",
)
def strided_broadcast_lost(broadcast, group, tensors, *options):
    """A broadcast into a strided tensor is lost."""
    return broadcast(group, [each.contiguous() for each in tensors], *options)


@wrong(
    "C3/OptionalCollectives/test_optional_collective_is_right_or_all_ranks_raise[all to all, uneven-four devices]",
    "torch.distributed.ProcessGroup.alltoall_base",
    "torch.distributed.ProcessGroup.all_to_all_single",
)
def uneven_parts_ignored(exchange, group, out, given, out_sizes, in_sizes, *options):
    """The sizes of an uneven all-to-all are ignored."""
    if out.shape == given.shape and len(given) % group.size() == 0:
        out_sizes, in_sizes = [], []
    return exchange(group, out, given, out_sizes, in_sizes, *options)


@wrong("C3/Waits/test_barrier_waits_for_a_late_rank[the first-two devices]", "Collective.barrier")
def barrier_does_not_wait(*_):
    """A barrier does not wait."""


@wrong(
    "C3/Waits/test_immediate_read_waits_for_a_late_rank[all_reduce-sum_all_reduce-two devices]",
    "Collective.all_reduce",
)
def collective_not_waited_for(all_reduce, collective, tensor, op="sum", group=None):
    """A collective is not waited for."""
    if op != "sum":
        return all_reduce(collective, tensor, op, group)
    dist.all_reduce(tensor, group=group, async_op=True)
    return tensor


@wrong("C3/MissingRank/test_other_ranks_raise_within_the_timeout[all_reduce-two devices]", "Collective.initialize")
def timeout_ignored(initialize, collective, *, timeout, **others):
    """Timeouts are ignored."""
    initialize(collective, timeout=None, **others)


@wrong("C3/Groups/test_barrier_waits_for_the_last_rank_of_the_group[two devices]", "Collective.barrier")
def groups_do_not_wait(barrier, collective, group=None):
    """The barrier of a group does not wait."""
    if group is None:
        barrier(collective)


@wrong(
    "C3/Waits/test_is_completed_is_false_before_the_last_rank_calls[two devices]", "torch.distributed.Work.is_completed"
)
def done_at_once(*_):
    """A Work reports completion too early."""
    return True


@wrong("C3/MissingRank/test_other_ranks_raise_within_the_timeout[barrier-two devices]", "Collective.barrier")
def barrier_forever(barrier, collective, group=None):
    """A barrier that times out starts again, for ever."""
    while True:
        try:
            return barrier(collective, group)
        except RuntimeError:
            continue


made = []


@wrong("C3/RepeatedGroups/test_each_group_sums_over_both_ranks", "Collective.initialize")
def group_made_once(initialize, collective, **given):
    """A process can create only one process group."""
    if not made:
        initialize(collective, **given)
    made.append(collective)


@wrong(
    "C4/SideBySide/test_weights_equal_those_of_a_job_that_runs_alone[two devices-lightning.pytorch]",
    "Collective.initialize",
)
def jobs_meet(initialize, collective, *, store=None, **given):
    """All jobs of a machine use the same port."""
    os.environ["MASTER_PORT"] = "29511"
    initialize(collective, **given)


@wrong("C4/Launches/test_a_trainer_is_started_by_an_external_launcher[two nodes]", "Collective.initialize")
def meets_on_itself(initialize, collective, *, store=None, **given):
    """A rank looks for rank 0 on its own machine."""
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    initialize(collective, **given)


@wrong("C3/Groups/test_all_reduce_sums_over_the_group[two devices]", "torch.distributed.new_group")
def group_asserts(*_, **__):
    """new_group() raises an AssertionError."""
    raise AssertionError("this group has no store")


@wrong("C3/RepeatedGroups/test_each_group_sums_over_both_ranks", "Collective.initialize")
def next_port_taken(initialize, collective, *, rank, **given):
    """Rank 0 listens at the port after MASTER_PORT."""
    initialize(collective, rank=rank, **given)
    if rank == 0:
        collective.listener = socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"]) + 1))


@wrong("C4/Restarts/test_restarted_weights_equal_those_of_an_uninterrupted_run", "Collective.initialize")
def left_file_met(initialize, collective, *, world_size, **given):
    """Ranks meet in a file that a killed job has left."""
    path = os.path.join(tempfile.gettempdir(), f"fairccl-{os.environ['MASTER_PORT']}")
    store = dist.FileStore(path, world_size)
    if store.add("ranks", 1) > world_size:
        raise RuntimeError(f"fairccl: more than {world_size} ranks have come")
    initialize(collective, world_size=world_size, **{**given, "store": store})


@wrong("C3/MissingRank/test_other_ranks_raise_within_the_timeout[barrier-two devices]", "torch.distributed.new_group")
def group_timeout_ignored(make, *given, timeout=None, **named):
    """The time limit of a group is ignored."""
    return make(*given, **named)


groups = []


@wrong("C3/RepeatedGroups/test_the_last_of_many_groups_still_works", "torch.distributed.new_group")
def groups_run_out(make, *given, **named):
    """new_group() raises an error after 64 groups."""
    if len(groups) == 64:
        raise RuntimeError("fairccl: no group is left")
    groups.append(make)
    return make(*given, **named)
