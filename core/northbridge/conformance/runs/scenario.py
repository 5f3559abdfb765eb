"""A run that the suite starts in processes of its own: what is done in it, on what, and how the ranks are started."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

Launch = Literal["script", "torchrun", "restarts", "two nodes", "ranks"]
"""Who starts the ranks: Lightning from one script, torchrun (which may start them again, once, where they fail),
Lightning on each of two nodes, or the suite.
"""

FAILED = "failed "
"""How the topic of a step that failed begins."""

REFUSED = "refused "
"""How the topic of a step begins that the chip is said not to do, or Northbridge for it."""


@dataclass(frozen=True)
class Scenario:
    """A step of a run, with the arguments of its Trainer or Fabric."""

    accelerator: str
    namespace: str
    steps: tuple[str, ...]
    """Of :mod:`northbridge.conformance.rank_programs`, done one after another in the same processes."""

    devices: int | str | tuple[int, ...] = 1
    strategy: str = "auto"
    launch: Launch = "script"
    models: tuple[str, ...] = ("mlp", "convnet", "transformer", "tied", "ensemble")
    resume: str = ""
    """The folder of the run whose checkpoints are taken up; none: those of this run."""

    @property
    def alone(self) -> bool:
        """Whether the run is one process."""
        return self.launch == "script" and (
            self.devices == 1 or (isinstance(self.devices, tuple) and len(self.devices) == 1)
        )

    @property
    def num_nodes(self) -> int:
        """Two for the launch that plays two nodes on one machine."""
        return 2 if self.launch == "two nodes" else 1

    @property
    def ranks(self) -> int:
        """How many ranks there are on all nodes, where :attr:`devices` is a number."""
        assert isinstance(self.devices, int)
        return self.devices * self.num_nodes

    @classmethod
    def from_json(cls, text: str) -> Scenario:
        """Return the scenario that :meth:`to_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        for name, value in fields.items():
            if isinstance(value, list):
                fields[name] = tuple(value)
        return cls(**fields)

    def to_json(self) -> str:
        """Return the scenario as one line of text."""
        return json.dumps(asdict(self))
