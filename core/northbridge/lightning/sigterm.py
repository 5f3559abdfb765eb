"""SIGTERM in a training of several ranks.

Since 2.5.2 Lightning broadcasts from inside the signal handler. A rank may stand anywhere then, in the middle of a
backward pass too, and two ranks that are in different collectives wait for each other until the timeout. Here the
handler only takes note, and the ranks agree between two batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from northbridge.journal import logger

if TYPE_CHECKING:
    from northbridge.lightning.faces import Face


def take_note(trainer: Any, signum: int) -> None:
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


def agree_to_end(face: Face, trainer: Any) -> None:
    """End the training in every rank alike if any of them has taken note of a SIGTERM; called between two batches."""
    if trainer.strategy.reduce_boolean_decision(trainer.strategy.sigterm_noted, all=False):
        trainer._signal_connector.received_sigterm = True
        raise face.module("utilities.exceptions").SIGTERMException
