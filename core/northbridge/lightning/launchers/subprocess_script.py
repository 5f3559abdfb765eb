"""The launcher of ranks that run the user's script once more."""

from __future__ import annotations

from typing import Any

from northbridge.lightning.namespaces import _NamespaceMixin
from northbridge.processes.environment import children_listen


class _SubprocessScriptLauncherMixin(_NamespaceMixin):
    """Start the ranks as scripts, and pass on what this process found out."""

    strategy: Any = None
    """Our strategy, whose ranks they are."""

    def launch(self, *args: Any, **kwargs: Any) -> Any:
        """Start the ranks; raises :class:`ClusterError` where they would never meet."""
        self.strategy.assert_environment()
        return super().launch(*args, **kwargs)

    def _call_children_scripts(self) -> None:
        with children_listen():
            super()._call_children_scripts()
