"""Decisions of Lightning's connector about the cluster environment, if the accelerator is ours."""

from __future__ import annotations

from typing import Any

from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace


def is_slurms(namespace: Namespace, plugins: Any) -> bool:
    """Return True if SLURM would be detected for this process, and the user names no cluster environment."""
    environments: Any = namespace.fabric_module("plugins.environments")
    given = plugins if isinstance(plugins, (list, tuple)) else [plugins]
    own = any(isinstance(each, environments.ClusterEnvironment) for each in given)
    return not own and bool(environments.SLURMEnvironment.detect()) and not _is_mpiexecs(namespace)


def _is_mpiexecs(namespace: Namespace) -> bool:
    # torchrun comes first, because mpiexec may start its agents. jsrun sets the variables of Open MPI itself.
    environments: Any = namespace.fabric_module("plugins.environments")
    if environments.TorchElasticEnvironment.detect() or environments.LSFEnvironment.detect():
        return False
    return bool(classes(namespace).mpiexec_environment.detect())


def choose_environment(namespace: Namespace, connector: Any) -> Any | None:
    """Build our cluster environment if mpiexec has started this process; None if Lightning's choice is right.

    It comes before Lightning's MPIEnvironment, which needs mpi4py and starts MPI, and which ``plugins=`` can name.
    """
    if connector._cluster_environment_flag is not None or not _is_mpiexecs(namespace):
        return None
    return classes(namespace).mpiexec_environment()
