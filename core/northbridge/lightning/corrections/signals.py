"""Handling of the signals by which a cluster takes back its machines from a training of several ranks.

SIGTERM ends a training. If SLURM requeues a job, another signal comes some time before. At that signal Lightning writes
the checkpoint from which the requeued job resumes. Lightning broadcasts (since 2.5.2) and writes inside the signal
handlers. A rank may be anywhere then, even in a backward pass. Two ranks in different collectives wait for each other
until the timeout. Here the handlers only set a flag, and the ranks agree between two batches.
"""

from __future__ import annotations

import signal
from typing import Any

from northbridge.lightning.namespaces import Namespace
from northbridge.process_record import logger


def note_sigterm(trainer: Any, signum: int) -> None:
    """Replace Lightning's SIGTERM handler: pass the signal to the ranks that this one started, and end the loops."""
    strategy = trainer.strategy
    if not strategy.sigterm_noted:
        logger.warning("rank %d received SIGTERM and ends after this batch", trainer.global_rank)
        if strategy.launcher is not None:
            strategy.launcher.kill(signum)
    strategy.sigterm_noted = True
    if not trainer.training:
        # Each rank leaves an evaluation on its own, at its next batch.
        trainer._signal_connector.received_sigterm = True


def note_requeue(trainer: Any, signum: int) -> bool:
    """Replace Lightning's handler of SLURM's signal. True if this rank may write now, because all ranks write."""
    strategy = trainer.strategy
    if strategy.ranks_requeue:
        return True
    logger.warning(
        "rank %d received signal %d: the ranks write a checkpoint after this batch", trainer.global_rank, signum
    )
    strategy.requeue_noted = True
    return False


def agree(namespace: Namespace, trainer: Any) -> None:
    """Make every rank obey a signal that any rank received; called between two batches.

    The ranks write the checkpoint of a requeued job, or end the training, all at the same step.
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
