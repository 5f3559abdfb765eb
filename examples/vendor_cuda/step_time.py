"""Compare a training step in bf16 on a GPU: with "nb_cuda", and with Lightning's own "cuda".

    python step_time.py --out step_time.json

Each round runs both, one after the other, in separate processes; the order alternates between rounds. The result is the
median of the rounds' ratios. The exit code is 0 if it is within the bound, 1 if it is not, and 3 without a GPU: then
nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import Callback
from transformer import LARGE, SMALL, Reverser, make_batches

BOUND = 1.005
NO_GPU = 3
_SIZES = {"large": LARGE, "small": SMALL}


class Clock(Callback):
    """Time the steps after the first few, with the device's queue empty at both ends."""

    def __init__(self, warm_up: int) -> None:
        self.warm_up = warm_up
        self.seconds = 0.0
        self._began = 0.0

    def on_train_batch_start(
        self,
        trainer: Trainer,  # noqa: ARG002 - Lightning's signature
        pl_module: LightningModule,
        batch: object,  # noqa: ARG002 - as above
        batch_idx: int,
    ) -> None:
        """Start at the first step that counts."""
        if batch_idx == self.warm_up:
            self._began = _now(pl_module.device)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop after the last step."""
        self.seconds = (_now(pl_module.device) - self._began) / (trainer.global_step - self.warm_up)


def _now(device: torch.device) -> float:
    torch.get_device_module(device).synchronize()
    return time.perf_counter()


def measure_here(accelerator: str, size: str, steps: int, warm_up: int) -> float:
    """Train in this process, and return the seconds of a step."""
    seed_everything(0, verbose=False)
    clock = Clock(warm_up)
    trainer = Trainer(
        accelerator=accelerator,
        devices=1,
        precision="bf16-mixed",
        max_steps=warm_up + steps,
        callbacks=[clock],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Reverser(_SIZES[size]), make_batches(_SIZES[size], warm_up + steps))
    return clock.seconds


def measure_in_turn(pair: list[str], asked: argparse.Namespace) -> dict[str, list[float]]:
    """Return the seconds of a step of both accelerators, one number for each round."""
    seconds: dict[str, list[float]] = {"first": [], "second": []}
    last = time.monotonic() + asked.seconds
    for turn in range(asked.rounds):
        if turn and time.monotonic() > last:
            print(f"{asked.seconds:g} s are over: no further round begins", flush=True)
            break
        order = list(zip(seconds, pair, strict=True))
        for place, accelerator in order if turn % 2 == 0 else reversed(order):
            command = [sys.executable, __file__, "--here", accelerator, "--size", asked.size]
            command += ["--steps", str(asked.steps), "--warm-up", str(asked.warm_up)]
            child = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            seconds[place].append(float(child.stdout.split()[-1]))
            print(f"round {turn + 1}  {accelerator:>8}  {seconds[place][-1] * 1e3:10.3f} ms a step", flush=True)
    return seconds


def main() -> int:
    """Measure, print, write, and return the exit code."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pair", nargs=2, default=["nb_cuda", "cuda"], help="the accelerators, over each other")
    arguments.add_argument("--size", choices=_SIZES, default="large")
    arguments.add_argument("--steps", type=int, default=50)
    arguments.add_argument("--warm-up", type=int, default=10)
    arguments.add_argument("--rounds", type=int, default=6)
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="begin no further round after these")
    arguments.add_argument("--out", type=Path, help="a file for the numbers, as JSON")
    arguments.add_argument("--here", help=argparse.SUPPRESS)
    asked = arguments.parse_args()
    if asked.here:
        print(measure_here(asked.here, asked.size, asked.steps, asked.warm_up))
        return 0
    if {"nb_cuda", "cuda"} & set(asked.pair) and not torch.cuda.is_available():
        print(f"no GPU: torch {torch.__version__} finds none here. Nothing was measured, and nothing is claimed")
        return NO_GPU

    seconds = measure_in_turn(asked.pair, asked)
    ratio = statistics.median(a / b for a, b in zip(seconds["first"], seconds["second"], strict=True))
    within = ratio <= BOUND
    print(f"{' ÷ '.join(asked.pair)}: {ratio:.4f}, {'within' if within else 'BEYOND'} {BOUND}")
    if asked.out:
        device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
        facts = {"device": device, "torch": torch.__version__, "size": asked.size, "pair": asked.pair, "bound": BOUND}
        asked.out.write_text(json.dumps({**facts, "ratio": ratio, "seconds_a_step": seconds}, indent=2) + "\n")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
