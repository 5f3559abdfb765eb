"""Barriers, time limits, and how ranks meet."""

import os
import socket
import tempfile

import northbridge_right as right
from northbridge_right import dist


@right.wrong("C3/Waits/test_barrier_waits_for_a_late_rank[the first-two devices]")
class BarrierDoesNotWait(right.Collective):
    """A barrier does not wait."""

    def barrier(self, group=None) -> None:
        pass


@right.wrong("C3/Waits/test_immediate_read_waits_for_a_late_rank[all_reduce-sum_all_reduce-two devices]")
class CollectiveNotWaitedFor(right.Collective):
    """A collective is not waited for."""

    def all_reduce(self, tensor, op="sum", group=None):
        if op != "sum":
            return super().all_reduce(tensor, op, group)
        dist.all_reduce(tensor, group=group, async_op=True)
        return tensor


@right.wrong("C3/MissingRank/test_other_ranks_raise_within_the_timeout[all_reduce-two devices]")
class TimeoutIgnored(right.Collective):
    """Timeouts are ignored."""

    def initialize(self, *, timeout, **others) -> None:
        super().initialize(timeout=None, **others)


@right.wrong("C3/Groups/test_barrier_waits_for_the_last_rank_of_the_group[two devices]")
class GroupsDoNotWait(right.Collective):
    """The barrier of a group does not wait."""

    def barrier(self, group=None):
        if group is None:
            super().barrier()


@right.caught_by("C3/Waits/test_is_completed_is_false_before_the_last_rank_calls[two devices]")
@right.instead_of("torch.distributed.Work.is_completed")
def done_at_once(*_):
    """A Work reports completion too early."""
    return True


@right.wrong("C3/MissingRank/test_other_ranks_raise_within_the_timeout[barrier-two devices]")
class BarrierForever(right.Collective):
    """A barrier that times out starts again, for ever."""

    def barrier(self, group=None) -> None:
        while True:
            try:
                return super().barrier(group)
            except RuntimeError:
                continue


@right.wrong("C3/RepeatedGroups/test_each_group_sums_over_both_ranks")
class GroupMadeOnce(right.Collective):
    """A process can create only one process group."""

    made = False

    def initialize(self, **given):
        if not GroupMadeOnce.made:
            super().initialize(**given)
        GroupMadeOnce.made = True


@right.wrong("C4/SideBySide/test_weights_equal_those_of_a_job_that_runs_alone[two devices-lightning.pytorch]")
class JobsMeet(right.Collective):
    """All jobs of a machine use the same port."""

    def initialize(self, *, store=None, **given):
        os.environ["MASTER_PORT"] = "29511"
        super().initialize(**given)


@right.wrong("C4/Launches/test_a_trainer_is_started_by_an_external_launcher[two nodes]")
class MeetsOnItself(right.Collective):
    """A rank looks for rank 0 on its own machine."""

    def initialize(self, *, store=None, **given) -> None:
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        super().initialize(**given)


@right.caught_by("C3/Groups/test_all_reduce_sums_over_the_group[two devices]")
@right.instead_of("torch.distributed.new_group")
def group_asserts(*_, **__):
    """new_group() raises an AssertionError."""
    raise AssertionError("this group has no store")


@right.wrong("C3/RepeatedGroups/test_each_group_sums_over_both_ranks")
class NextPortTaken(right.Collective):
    """Rank 0 listens at the port after MASTER_PORT."""

    def initialize(self, *, rank, **given):
        super().initialize(rank=rank, **given)
        if rank == 0:
            self.listener = socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"]) + 1))


@right.wrong("C4/Restarts/test_restarted_weights_equal_those_of_an_uninterrupted_run")
class LeftFileMet(right.Collective):
    """Ranks meet in a file that a killed job has left."""

    def initialize(self, *, world_size, **given):
        from torch.distributed import FileStore

        path = os.path.join(tempfile.gettempdir(), f"fairccl-{os.environ['MASTER_PORT']}")
        store = FileStore(path, world_size)
        if store.add("ranks", 1) > world_size:
            raise RuntimeError(f"fairccl: more than {world_size} ranks have come")
        super().initialize(world_size=world_size, **{**given, "store": store})


@right.caught_by("C3/MissingRank/test_other_ranks_raise_within_the_timeout[barrier-two devices]")
@right.instead_of("torch.distributed.new_group")
def group_timeout_ignored(make, *given, timeout=None, **named):
    """The time limit of a group is ignored."""
    return make(*given, **named)


_groups = []


@right.caught_by("C3/RepeatedGroups/test_the_last_of_many_groups_still_works")
@right.instead_of("torch.distributed.new_group")
def groups_run_out(make, *given, **named):
    """new_group() raises an error after 64 groups."""
    if len(_groups) == 64:
        raise RuntimeError("fairccl: no group is left")
    _groups.append(None)
    return make(*given, **named)
