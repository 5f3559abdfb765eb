"""The process that trains: it takes jobs from its stdin, and answers each with how long a step took.

It is alone, or one of the ranks that :func:`bench.child.conversation` starts.
"""

from __future__ import annotations

import resource
import tempfile
import time
import warnings
from dataclasses import asdict
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer

from bench.job import Answer, Answers, Job, questions
from bench.models import TASKS

WARM_UP = 3
"""Steps at the beginning of each fit that are not measured: they allocate, and meet cold caches."""


class StepTimer(Callback):
    """Take the time at the end of each step: between two of them lies all that a step costs the user."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_train_batch_end(self, *_arguments: Any, **_more: Any) -> None:
        self.ends.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        """The median of the measured steps."""
        measured = self.ends[WARM_UP:]
        return median(after - before for before, after in pairwise(measured))


def train(job: Job) -> Answer | None:
    """Fit a new model with a new Trainer; only rank 0 has an answer."""
    callbacks: list[Callback] = []
    if job.watched:
        from northbridge.lightning.pytorch import RecompilationMonitor

        callbacks.append(RecompilationMonitor())
    torch.set_num_threads(job.threads)
    timer = StepTimer()
    task = TASKS[job.task]
    with tempfile.TemporaryDirectory() as folder:
        if job.snapshots is not None:
            from northbridge.lightning.pytorch import Snapshots

            callbacks.append(Snapshots(folder, range(10**6) if job.snapshots else ()))
        began = time.perf_counter()
        trainer = Trainer(
            accelerator=job.accelerator,
            precision=job.precision,  # type: ignore[arg-type]  # one of Lightning's words
            **_ranks(job),
            max_epochs=1,
            callbacks=[*callbacks, timer],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            default_root_dir=folder,
        )
        trainer_seconds = time.perf_counter() - began
        learner = task.learner()
        learner.sync_dist = job.sync_dist
        trainer.fit(learner, task.loader(job.steps + WARM_UP + 1))
    if not trainer.is_global_zero:
        return None
    logged = median(learner.log_seconds[WARM_UP:])
    return Answer(trainer_seconds, timer.seconds, logged, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def _ranks(job: Job) -> dict[str, Any]:
    """Return the Trainer's arguments that say how many ranks train, and by which strategy."""
    if job.ray:
        from ray.train.lightning import RayDDPStrategy, RayLightningEnvironment  # pyright: ignore[reportMissingImports]

        return {"devices": "auto", "strategy": RayDDPStrategy(), "plugins": [RayLightningEnvironment()]}
    if job.sync_every:
        from northbridge.lightning.pytorch import MixedDDPStrategy

        return {"devices": 1, "num_nodes": job.devices, "strategy": MixedDDPStrategy(sync_every=job.sync_every)}
    return {"devices": job.devices, "strategy": "ddp" if job.devices > 1 else "auto"}


def train_with_ray(job: Job) -> Answer | None:
    """Do what :func:`train` does, called by Ray Train in this process."""
    from ray.train import ScalingConfig  # pyright: ignore[reportMissingImports]
    from ray.train.torch import TorchTrainer  # pyright: ignore[reportMissingImports]

    answers: list[Answer | None] = []
    TorchTrainer(lambda: answers.append(train(job)), scaling_config=ScalingConfig(num_workers=0)).fit()
    return answers[0]


def main() -> None:
    """Answer each job with its :class:`Answer`."""
    warnings.filterwarnings("ignore", category=UserWarning)  # Lightning's advice: a logger, more dataloader workers
    answers = Answers.capture_stdout()
    for question in questions():
        job = Job(**question)
        answer = train_with_ray(job) if job.ray else train(job)
        if answer is not None:
            answers.give(asdict(answer))


if __name__ == "__main__":
    main()
