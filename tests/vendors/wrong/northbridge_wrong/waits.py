"""Barriers, time limits, and how ranks meet."""

import os
import socket
import tempfile

import northbridge_right as right


@right.wrong
class BarrierDoesNotWait(right.Collective):
    """The barrier lets every rank pass at once."""

    def barrier(self, group=None) -> None:
        pass


@right.wrong
class CollectiveNotWaitedFor(right.Collective):
    """A sum is returned while it is still under way."""

    def all_reduce(self, tensor, op="sum", group=None):
        import torch.distributed as dist

        if op != "sum":
            return super().all_reduce(tensor, op, group)
        dist.all_reduce(tensor, group=group, async_op=True)
        return tensor


@right.wrong
class TimeoutIgnored(right.Collective):
    """The ranks wait for each other as long as torch does by itself, whatever time limit was asked for."""

    def initialize(self, *, timeout, **others) -> None:
        super().initialize(timeout=None, **others)


@right.wrong
class GroupsDoNotWait(right.Collective):
    """The barrier of a group does not wait."""

    def barrier(self, group=None):
        if group is None:
            super().barrier()


@right.instead_of("torch.distributed.Work.is_completed")
def done_at_once(*_):
    """Whatever is under way says that it is done."""
    return True


@right.wrong
class BarrierForever(right.Collective):
    """A barrier that runs into its time limit begins again."""

    def barrier(self, group=None) -> None:
        while True:
            try:
                return super().barrier(group)
            except RuntimeError:
                continue


@right.wrong
class GroupMadeOnce(right.Collective):
    """The process group is made once a process."""

    made = False

    def initialize(self, **given):
        if not GroupMadeOnce.made:
            super().initialize(**given)
        GroupMadeOnce.made = True


@right.wrong
class JobsMeet(right.Collective):
    """All jobs of a machine meet at one port, whatever store their ranks were given."""

    def initialize(self, *, store=None, **given):
        os.environ["MASTER_PORT"] = "29511"
        super().initialize(**given)


@right.wrong
class MeetsOnItself(right.Collective):
    """Ranks look for rank 0 on their own machine, whatever MASTER_ADDR says, and whatever store they were given."""

    def initialize(self, *, store=None, **given) -> None:
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        super().initialize(**given)


@right.instead_of("torch.distributed.new_group")
def group_asserts(*_, **__):
    """``new_group`` raises an AssertionError."""
    raise AssertionError("this group has no store")


@right.wrong
class NextPortTaken(right.Collective):
    """Rank 0 listens at the port after MASTER_PORT, which may be another job's."""

    def initialize(self, *, rank, **given):
        super().initialize(rank=rank, **given)
        if rank == 0:
            self.listener = socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"]) + 1))


@right.wrong
class LeftFileMet(right.Collective):
    """Ranks meet and are counted in a file named after their port, which stays if they are killed."""

    def initialize(self, *, world_size, **given):
        from torch.distributed import FileStore

        path = os.path.join(tempfile.gettempdir(), f"fairccl-{os.environ['MASTER_PORT']}")
        store = FileStore(path, world_size)
        if store.add("ranks", 1) > world_size:
            raise RuntimeError(f"fairccl: more than {world_size} ranks have come")
        super().initialize(world_size=world_size, **{**given, "store": store})


@right.instead_of("torch.distributed.new_group")
def group_timeout_ignored(make, *given, timeout=None, **named):
    """The time limit of a group is ignored: it is torch's default."""
    return make(*given, **named)


_groups = []


@right.instead_of("torch.distributed.new_group")
def groups_run_out(make, *given, **named):
    """``new_group`` raises an error after 64 groups."""
    if len(_groups) == 64:
        raise RuntimeError("fairccl: no group is left")
    _groups.append(None)
    return make(*given, **named)
