"""Read checkpoints of shards that are damaged in one place, on one device of cpu_sim, and print what came of each.

python damage_shards.py seed cases
"""

import json
import shutil
import sys
import warnings
from pathlib import Path
from random import Random
from typing import Any

import torch
from lightning.fabric import Fabric
from lightning.fabric.strategies.model_parallel import ModelParallelStrategy
from tests.core.lightning.damage import damaged
from torch.distributed.fsdp import fully_shard

from northbridge.errors import CheckpointError

FILES = (".metadata", "meta.pt", "__0_0.distcp")


def spread(net: Any, mesh: Any) -> Any:
    fully_shard(net, mesh=mesh["data_parallel"])
    return net


def read(folder: Path) -> str:
    """Return how it ended: with the error, or with values that are right or warned of, or wrong ones."""
    with torch.no_grad():
        net.weight.zero_()
    state: dict[str, Any] = {"net": net, "optimizer": optimizer, "epoch": 0}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            fabric.load(folder, state)
        except CheckpointError as error:
            return "refused" if str(error).startswith(f"{folder} could not be read") else f"without its name: {error}"
        except ValueError as error:  # Lightning's own, of a folder without meta.pt
            return "refused" if "does not point to a valid checkpoint" in str(error) else f"raw: {error!r}"
        except BaseException as error:  # noqa: BLE001 - what is counted
            return f"raw: {error!r}"
    if any(f"the checkpoint {folder} is damaged: " in str(each.message) for each in warned):
        return "warned"
    return "right" if torch.equal(net.weight.full_tensor().cpu(), weight) and state["epoch"] == 3 else "wrong"


if __name__ == "__main__":
    draw = Random(int(sys.argv[1]))
    fabric = Fabric(accelerator="cpu_sim", devices=1, strategy=ModelParallelStrategy(spread, 1, 1))
    fabric.launch()
    net: Any = fabric.setup_module(torch.nn.Linear(8, 8))
    optimizer: Any = fabric.setup_optimizers(torch.optim.SGD(net.parameters(), 0.1, momentum=0.9))
    fabric.backward(net(torch.ones(1, 8, device=fabric.device)).sum())
    optimizer.step()
    weight = net.weight.full_tensor().cpu().clone()
    fabric.save("whole", {"net": net, "optimizer": optimizer, "epoch": 3})
    found = {"whole": read(Path("whole"))}
    for number in range(int(sys.argv[2])):
        name = FILES[number % len(FILES)]
        folder = Path(f"{number}-{name.strip('.')}")
        shutil.copytree("whole", folder)
        (folder / name).unlink()
        if number >= len(FILES):
            (folder / name).write_bytes(damaged(Path("whole", name).read_bytes(), draw))
        found[folder.name] = read(folder)
        shutil.rmtree(folder)
    Path("found.json").write_text(json.dumps(found))
