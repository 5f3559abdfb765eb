"""Cluster environment of the ranks that mpiexec starts."""

from __future__ import annotations

import os

from northbridge.launch.mpiexec import Place, find_address, find_place, find_port, infer_shape, starts_ranks
from northbridge.lightning.namespaces import _NamespaceMixin


class _MpiexecEnvironmentMixin(_NamespaceMixin):
    """Reads the ranks from the variables of PALS, Open MPI, MVAPICH, PMI and PMIx; mpi4py is not needed.

    Found automatically if mpiexec has started this process. The ranks meet on the first node of the job, at a port
    that follows from the job's id, or at MASTER_ADDR and MASTER_PORT.
    """

    _place: Place | None = None

    @staticmethod
    def detect() -> bool:
        """Return True if mpiexec has started this process. Raises :class:`ClusterError` on a contradiction."""
        return starts_ranks(os.environ)

    @property
    def creates_processes_externally(self) -> bool:
        """True: Lightning starts no process."""
        return True

    @property
    def place(self) -> Place:
        """The numbers of this process. Raises :class:`ClusterError` if the variables do not suffice."""
        if self._place is None:
            self.validate_settings(*reversed(infer_shape(os.environ)))
            assert self._place is not None
        return self._place

    @property
    def main_address(self) -> str:
        """The address of rank 0. Raises :class:`ClusterError` if nothing names it."""
        place = self.place
        return find_address(os.environ, rank=place.rank, nodes=self._nodes)

    @property
    def main_port(self) -> int:
        """The port of rank 0."""
        return find_port(os.environ)

    def validate_settings(self, num_devices: int, num_nodes: int) -> None:
        """Find this process's place in the Trainer's run. Raises :class:`ClusterError` if it has none."""
        self._nodes = num_nodes
        self._place = find_place(os.environ, num_nodes, num_devices)

    def world_size(self) -> int:
        """Return the number of ranks."""
        return self.place.world_size

    def set_world_size(self, size: int) -> None:
        """Ignore ``size``: mpiexec has started the ranks."""

    def global_rank(self) -> int:
        """Return the rank of this process."""
        return self.place.rank

    def set_global_rank(self, rank: int) -> None:
        """Ignore ``rank``: mpiexec has numbered the ranks."""

    def local_rank(self) -> int:
        """Return the number of this process on its node."""
        return self.place.local_rank

    def node_rank(self) -> int:
        """Return the number of this node."""
        return self.place.node_rank
