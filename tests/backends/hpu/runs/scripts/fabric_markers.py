"""Count the markers of a Fabric's run: python fabric_markers.py devices=1"""

import sys

import torch
from lightning.fabric import Fabric

from northbridge_hpu.simulated import markers

fabric = Fabric(accelerator="hpu", devices=int(sys.argv[1].removeprefix("devices=")))
fabric.launch()
model = torch.nn.Linear(4, 1)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
inputs = torch.ones(2, 4, device=fabric.device)
found: list[str] = []
seen = markers.placed


def count(what: str) -> None:
    global seen
    found.append(f"{what}: {markers.placed - seen}")
    seen = markers.placed


for micro_batch in (True, False):
    with fabric.no_backward_sync(model, enabled=micro_batch):
        fabric.backward(model(inputs).sum())
    count("backward of a micro-batch" if micro_batch else "backward")
optimizer.step()
count("step")
with torch.no_grad():
    model(inputs)
count("evaluation")
if fabric.is_global_zero:
    print(", ".join(found))
