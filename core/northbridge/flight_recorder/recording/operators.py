"""The operators of the dispatcher's library ``c10d``, and the process groups: what a record tells of a call."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_NAMES = {
    "_allgather_base_": "all_gather_into_tensor",
    "_reduce_scatter_base_": "reduce_scatter_tensor",
    "allgather_": "all_gather",
    "allgather_coalesced_": "all_gather_coalesced",
    "allgather_into_tensor_coalesced_": "all_gather_into_tensor_coalesced",
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce_coalesced",
    "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all_single",
    "recv_any_source_": "recv",
}
"""Names of operators in ``torch.distributed``, if they differ by more than an underscore."""

_RANKS = ("root_rank", "dst", "src")


@dataclass(frozen=True)
class Operator:
    """Positions of the recorded arguments in one operator's call; only sends and receives have a tag."""

    name: str
    group: int
    tensors: int | None
    peer: int | None
    tag: int | None

    @classmethod
    def of_schema(cls, operator: str, schema: Any) -> Operator | None:
        """Read an operator's ``schema``; None for an operator without a process group."""
        types = {each.name: (place, str(each.type)) for place, each in enumerate(schema.arguments)}
        groups = [place for place, kind in types.values() if kind.endswith("c10d.ProcessGroup")]
        if not groups:
            return None
        flat = {name: place for name, (place, kind) in types.items() if kind in ("Tensor", "List[Tensor]")}
        if "barrier" in operator:
            flat = {}  # its tensor only names the device
        inputs = [place for name, place in flat.items() if name.startswith("input")]
        peers = [types[name][0] for name in _RANKS if name in types]
        return cls(
            name=_NAMES.get(operator, operator.strip("_")),
            group=groups[0],
            tensors=next(iter([*inputs, *flat.values()]), None),
            peer=peers[0] if peers else None,
            tag=types["tag"][0] if "tag" in types else None,
        )


COLLECTIVES = ""
"""Channel of calls that all ranks of a group make; sends and receives are counted separately."""


class CountedGroup:
    """One process group. torch reuses the name of a destroyed group, so each of its lives has a number."""

    def __init__(self, process_group: Any, life: int) -> None:
        self._alive = weakref.ref(process_group)
        self.name: str = process_group.group_name
        self.key: str = f"{self.name}/{life}"
        known = _known_by_name(process_group)
        self._ranks = _ranks_of(known)
        self._about = {
            "name": self.name,
            "life": life,
            "description": getattr(process_group, "group_desc", ""),
            "library": _library_of(known),
        }
        self._counts: dict[str, int] = {}

    def is_(self, process_group: Any) -> bool:
        """Return True if this is ``process_group``, and not an earlier group with its name."""
        return self._alive() is process_group

    def count(self, channel: str = COLLECTIVES) -> int:
        """Count one more call of a channel, and return its number, starting at 1."""
        number = self._counts[channel] = self._counts.get(channel, 0) + 1
        return number

    def member(self, place: int) -> int | None:
        """Return the world rank of the group's rank ``place``; None if it is unknown."""
        known = self._ranks is not None and 0 <= place < len(self._ranks)
        return self._ranks[place] if known and self._ranks is not None else None

    def as_dict(self) -> dict[str, object]:
        """Return the group's record for a file, with the counts so far."""
        return {"kind": "group", "group": self.key, "ranks": self._ranks, "counts": self._counts, **self._about}


class CountedGroups:
    """The groups that have been used, by name."""

    def __init__(self) -> None:
        self._last: dict[str, CountedGroup] = {}
        self._lives: dict[str, int] = {}

    def __iter__(self) -> Iterator[CountedGroup]:
        return iter(self._last.values())

    def find(self, process_group: Any) -> tuple[CountedGroup, bool]:
        """Return the counted group of ``process_group``, and True if it is new."""
        name: str = process_group.group_name
        found = self._last.get(name)
        if found is not None and found.is_(process_group):
            return found, False
        self._lives[name] = self._lives.get(name, 0) + 1
        found = self._last[name] = CountedGroup(process_group, self._lives[name])
        return found, True


def _known_by_name(process_group: Any) -> Any:
    """Return the group that torch knows by the name of ``process_group``, which may be the inner one of a library."""
    from torch._C._distributed_c10d import _resolve_process_group

    try:
        return _resolve_process_group(process_group.group_name)
    except (LookupError, RuntimeError):  # made in C++, or not completely made yet
        return process_group


def _ranks_of(process_group: Any) -> list[int] | None:
    import torch.distributed

    try:
        return [int(each) for each in torch.distributed.get_process_group_ranks(process_group)]
    except (KeyError, RuntimeError, ValueError):  # made in C++, or not completely made yet
        size = process_group.size()
        whole = torch.distributed.is_initialized() and size == torch.distributed.get_world_size()
        return list(range(size)) if whole else None


def _library_of(process_group: Any) -> str:
    import torch.distributed

    try:
        config = str(torch.distributed.get_backend_config(process_group))
    except (KeyError, RuntimeError, ValueError):
        config = str(process_group.name())
    carriers = dict.fromkeys(each.rpartition(":")[2] for each in config.split(","))
    return ", ".join(carriers)
