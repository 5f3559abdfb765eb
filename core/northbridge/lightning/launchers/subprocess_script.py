"""The launcher of ranks that run the user's script once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from northbridge.processes.environment import heirs_listen

if TYPE_CHECKING:
    from northbridge.lightning.namespaces import Namespace


def make_script_launcher(namespace: Namespace) -> Any:
    """Return the launcher class of ``namespace``, which tells the ranks what this process knows."""
    stock: Any = namespace.module("strategies.launchers.subprocess_script")._SubprocessScriptLauncher

    class SubprocessScriptLauncher(stock):  # type: ignore[misc]  # Lightning's class of this namespace, known at run time
        """Start the ranks as scripts."""

        strategy: Any = None
        """Our strategy, whose ranks they are."""

        def launch(self, *args: Any, **kwargs: Any) -> Any:
            """Start the ranks; raises :class:`ClusterError` where they would never meet."""
            self.strategy.assert_environment()
            return super().launch(*args, **kwargs)

        def _call_children_scripts(self) -> None:
            with heirs_listen():
                super()._call_children_scripts()

    return SubprocessScriptLauncher
