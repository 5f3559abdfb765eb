"""The signals of a cluster that takes its machines back, in a training of several ranks.

SIGTERM ends a training. Where SLURM puts a job into its queue again, another signal comes some time before, at which
Lightning writes a checkpoint that the requeued job begins with. Lightning broadcasts (since 2.5.2) and writes from
inside the signal handlers. A rank may stand anywhere then, in the middle of a backward pass too, and two ranks that are
in different collectives wait for each other until the timeout. Here the handlers only take note, and the ranks agree
between two batches.
"""

from __future__ import annotations

import signal
from typing import Any

from northbridge.lightning.namespaces import Namespace
from northbridge.process_record import logger


def note_sigterm(trainer: Any, signum: int) -> None:
    """Answer for Lightning's SIGTERM handler: tell the ranks that this one started, and have the loops end."""
    strategy = trainer.strategy
    if not strategy.sigterm_noted:
        logger.warning("rank %d received SIGTERM and ends after this batch", trainer.global_rank)
        if strategy.launcher is not None:
            strategy.launcher.kill(signum)
    strategy.sigterm_noted = True
    if not trainer.training:
        # Each rank leaves an evaluation by itself, at its next batch.
        trainer._signal_connector.received_sigterm = True


def note_requeue(trainer: Any, signum: int) -> bool:
    """Answer for Lightning's handler of SLURM's signal; whether this rank may write now, because all of them do."""
    strategy = trainer.strategy
    if strategy.ranks_requeue:
        return True
    logger.warning(
        "rank %d received signal %d: the ranks write a checkpoint after this batch", trainer.global_rank, signum
    )
    strategy.requeue_noted = True
    return False


def agree(namespace: Namespace, trainer: Any) -> None:
    """Have every rank do what a signal has told any of them; called between two batches.

    The ranks write the checkpoint of a job that is requeued, or end the training: both in step with each other.
    """
    strategy, signals = trainer.strategy, trainer._signal_connector
    signum = _requeue_signal(namespace, trainer)
    if signum is not None and strategy.reduce_boolean_decision(strategy.requeue_noted, all=False):
        strategy.requeue_noted, strategy.ranks_requeue = False, True
        try:
            signals._slurm_sigusr_handler_fn(signum, None)
        finally:
            strategy.ranks_requeue = False
    if strategy.reduce_boolean_decision(strategy.sigterm_noted, all=False):
        signals.received_sigterm = strategy.ranks_end = True
        raise namespace.module("utilities.exceptions").SIGTERMException


def _requeue_signal(namespace: Namespace, trainer: Any) -> int | None:
    environment = trainer.strategy.cluster_environment
    slurm: Any = namespace.fabric_module("plugins.environments").SLURMEnvironment
    if not isinstance(environment, slurm) or not environment.auto_requeue:
        return None
    return environment.requeue_signal or signal.SIGUSR1
