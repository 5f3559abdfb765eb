"""The sizes of an uneven all-to-all are ignored where the whole can be divided evenly."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from torch.distributed import ProcessGroup

        def evenly(exchange):
            def called(group, out, given, out_sizes, in_sizes, *options):
                if out.shape == given.shape and len(given) % group.size() == 0:
                    out_sizes, in_sizes = [], []
                return exchange(group, out, given, out_sizes, in_sizes, *options)

            return called

        for name in ("alltoall_base", "all_to_all_single"):  # before torch 2.13, and since
            if hasattr(ProcessGroup, name):
                setattr(ProcessGroup, name, evenly(getattr(ProcessGroup, name)))


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_uneven_parts_ignored", bridge=Bridge)
