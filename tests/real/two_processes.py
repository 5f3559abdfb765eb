"""Train on two processes that share a device, and on the CPU, and say how the weights differ.

``two_processes.py DEVICE`` is run by the Python and in the environment of the device. The processes are two nodes to
Lightning, for a node with one device has one process.
"""

from __future__ import annotations

import sys

from northbridge_conformance.run import run
from northbridge_conformance.runs.comparison import differences_from_cpu
from northbridge_conformance.runs.scenario import Scenario, reference
from northbridge_conformance.tests.lightning.training import train

MODELS = ("mlp", "convnet", "transformer")


def main(device: str) -> None:
    """Print a line for each model: its differences, or that there are none."""
    ours, cpus = (
        run(
            Scenario(
                accelerator,
                "lightning.pytorch",
                (reference(train),),
                devices,
                strategy="ddp",
                launch="two nodes",
                models=MODELS,
            )
        )
        for accelerator, devices in ((device, (0,)), ("cpu", 1))  # both processes share the device
    )
    for model in MODELS:
        found, expected = (each.ranks(f"{train.__name__} {model}") for each in (ours, cpus))
        first, second = (each["learnt"] for each in found)
        wrong = ["the two processes have other parameters"] if first != second else []
        for mine, theirs in zip(found, expected, strict=True):
            wrong += differences_from_cpu(device, mine["weights"], theirs["weights"])
        print(f"{model}: on {', '.join(each['root device'] for each in found)}: {wrong or 'as on the CPU'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
