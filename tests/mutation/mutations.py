"""Faults that are made on purpose, to see whether the suite finds them: ten of them are drawn by a seed.

Each is made in every process of a run, when the backend has been loaded there: an operation of torch's, a collective,
or a function of the device is a little wrong from then on. Nothing of it depends on the backend.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from tests.core.broken_plugins import write_distribution
from tests.forks.suite import forking

from northbridge.discovery.installed import GROUP, find

VARIABLE = "PYTEST_MUTATION_"
"""With the backend's name behind it, the variable that names the fault of this process and its children."""

TEN = 10


@dataclass(frozen=True)
class Mutation:
    """One fault."""

    kind: str
    """A method of :class:`tests.mutation.mutator.Mutator`, or a method of the device."""

    subject: str
    """The operation or collective of torch's, or the method."""

    rank: int
    """The rank in which it is made, where it is made in one."""

    only: str
    """A part of the ids of the tests that are run to find it."""

    ought: str
    """The test that ought to find it, if no other does."""

    def describe(self) -> str:
        """Return what is wrong, in words."""
        return _WORDS[self.kind].format(subject=self.subject, rank=self.rank)


_WORDS = {
    "one ulp off": "the first element of {subject}'s result is one unit in the last place too large",
    "rounded": "{subject} rounds its result to bfloat16",
    "wrong dtype": "{subject} returns another dtype",
    "last lost": "the last element of {subject}'s result is zero",
    "dropped": "{subject} leaves out rank {rank}",
    "counted twice": "{subject} counts rank {rank} twice",
    "coarse": "{subject} rounds rank {rank}'s tensor to bfloat16",
    "wrong root": "{subject} uses the next rank as its root",
    "reversed": "{subject} returns the ranks' tensors in reverse order",
    "does nothing": "the device's {subject}() does nothing",
    "never changes": "the device's {subject}() always returns its first result",
}

_OPERATIONS = {
    "aten.add.Tensor": "add",
    "aten.sub.Tensor": "sub",
    "aten.mul.Tensor": "mul",
    "aten.div.Tensor": "div",
    "aten.mm.default": "mm",
    "aten.bmm.default": "bmm",
    "aten.addmm.default": "addmm",
    "aten.exp.default": "exp",
    "aten.log.default": "log",
    "aten.tanh.default": "tanh",
    "aten.sigmoid.default": "sigmoid",
    "aten.sqrt.default": "sqrt",
    "aten.sin.default": "sin",
    "aten.cos.default": "cos",
    "aten.relu.default": "nn.functional.relu",
    "aten.gelu.default": "nn.functional.gelu",
    "aten._softmax.default": "softmax",
    "aten.native_layer_norm.default": "nn.functional.layer_norm",
    "aten.convolution.default": "nn.functional.conv2d",
    "aten.cumsum.default": "cumsum",
}
"""The operations by their names in torch's dispatcher, each with its name in the suite's tests."""

_OF_AN_OPERATION = ("one ulp off", "rounded", "wrong dtype", "last lost")
_OF_COLLECTIVES = (
    ("dropped", "c10d.allreduce_.default", "C3/CollectiveReductions/", "test_each_rank_is_counted_once[two devices]"),
    (
        "counted twice",
        "c10d.allreduce_.default",
        "C3/CollectiveReductions/",
        "test_each_rank_is_counted_once[two devices]",
    ),
    (
        "coarse",
        "c10d.allreduce_.default",
        "C3/CollectiveReductions/",
        "test_sum_keeps_the_full_precision_of_the_dtype[float32-two devices]",
    ),
    ("wrong root", "c10d.broadcast_.default", "C3/Transfers/", "test_broadcast_from_each_rank[two devices]"),
    ("reversed", "c10d.allgather_.default", "C3/Transfers/", "test_all_gather[gathered-two devices]"),
)
_OF_THE_DEVICE = (
    ("does nothing", "set_random_state", "C1/RandomNumbers/test_restored_state_gives_the_same_numbers"),
    ("does nothing", "seed", "C1/RandomNumbers/test_same_seed_gives_the_same_sequence"),
    ("does nothing", "select", "C1/Placement/test_the_selected_device_is_the_current_one"),
    ("never changes", "memory_stats", "C1/Memory/test_a_tensor_is_counted_until_it_is_freed"),
    ("never changes", "random_state", "C1/RandomNumbers/test_random_state_is_per_device"),
)


def draw(seed: int) -> tuple[Mutation, ...]:
    """Return the ten faults of ``seed``: five of operations, three of collectives, two of the device."""
    chance = random.Random(seed)
    test = "C1/Operations/test_result_and_gradient_match_the_cpu"
    operations = [
        Mutation(chance.choice(_OF_AN_OPERATION), subject, 0, "C1/Operations/", f"{test}[{_OPERATIONS[subject]}]")
        for subject in chance.sample(sorted(_OPERATIONS), 5)
    ]
    collectives = [
        Mutation(kind, subject, chance.randrange(2), only, f"{only}{test}")
        for kind, subject, only, test in chance.sample(_OF_COLLECTIVES, 3)
    ]
    device = [
        Mutation(kind, subject, 0, f"{ought.rpartition('/')[0]}/", ought)
        for kind, subject, ought in chance.sample(_OF_THE_DEVICE, 2)
    ]
    return (*operations, *collectives, *device)


def breaking(backend: str, mutation: Mutation, environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` for a process of the suite in which ``mutation`` is made, where ``backend`` is loaded.

    Its distribution is found first in a folder of ours, whose metadata name :mod:`tests.mutation.plugin`.
    """
    described = json.dumps({"module": find(backend).module, "mutation": asdict(mutation)})
    path = os.pathsep.join(filter(None, [str(_install(backend)), environ.get("PYTHONPATH")]))
    return {**forking({**environ, "PYTHONPATH": path}), f"{VARIABLE}{backend.upper()}": described}


@cache
def _install(backend: str) -> Path:
    """Install the backend's distribution with our plugin in the place of its own; return the folder."""
    folder = Path(tempfile.mkdtemp(prefix="northbridge-mutation-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    plugin = find(backend)
    assert plugin.source is not None
    points: dict[str, dict[str, str]] = {}
    for point in plugin.source.entry_points:
        value = "tests.mutation.plugin" if (point.group, point.name) == (GROUP, backend) else point.value
        points.setdefault(point.group, {})[point.name] = value
    write_distribution(folder, plugin.distribution, plugin.version, points)
    return folder
