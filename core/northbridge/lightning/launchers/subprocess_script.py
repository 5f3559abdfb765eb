"""Launcher of ranks that run the user's script again."""

from __future__ import annotations

from typing import Any

from northbridge.lightning.launchers.dead_ranks import note_scripts
from northbridge.lightning.namespaces import _NamespaceMixin
from northbridge.processes.environment import children_listen


class _SubprocessScriptLauncherMixin(_NamespaceMixin):
    """Starts the ranks as scripts, and passes on what this process detected."""

    strategy: Any = None
    """Our strategy, which the ranks run."""

    def launch(self, *args: Any, **kwargs: Any) -> Any:
        """Start the ranks. Raises :class:`ClusterError` if they would never meet."""
        self.strategy.assert_environment()
        return super().launch(*args, **kwargs)

    def _call_children_scripts(self) -> None:
        with children_listen():
            super()._call_children_scripts()
        note_scripts(self, self.strategy.node_rank * self.strategy.num_processes)
