"""The operators of the dispatcher's library ``c10d``, and where each has the arguments that a record tells."""

from __future__ import annotations

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
    """Positions of the recorded arguments in one operator's call."""

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

    @property
    def is_between_two(self) -> bool:
        """True if one rank sends and one receives; False if all ranks of the group call it."""
        return self.tag is not None
