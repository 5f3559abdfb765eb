"""The nodes of a cluster's job, as its scheduler lists them."""

from __future__ import annotations

import math
import re
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

from northbridge.errors import ClusterError
from northbridge.untrusted.text import shorten

PBS_FILE = "PBS_NODEFILE"
SLURM_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST")
STEP_LIST = "SLURM_STEP_NODELIST"
"""The nodes on which one srun runs: all of the job's, or some of them."""

_RESOLVE_SECONDS = 20.0
_RANGE = re.compile(r"(\d+)(?:-(\d+))?(?::(\d+))?")
_LARGEST = 100_000


@dataclass(frozen=True)
class NodeList:
    """The hosts of a job, in the scheduler's order, each once."""

    variable: str
    text: str
    hosts: tuple[str, ...]
    node_name: str = ""
    """The name that the scheduler has for this node; empty if it is not known."""

    @classmethod
    def read(cls, environ: Mapping[str, str], *, step: bool = False) -> NodeList | None:
        """Read the list from PBS's file or SLURM's variable; None if neither is set.

        ``step`` prefers the nodes of this srun to those of the job. Raises :class:`ClusterError` if the file cannot be
        read, or the list is empty or malformed.
        """
        if environ.get(PBS_FILE):
            return cls._of_pbs(environ[PBS_FILE])
        # Only srun's tasks: mpiexec may copy the name of its own node to the others.
        node_name = environ.get("SLURMD_NODENAME", "") if step else ""
        for variable in (STEP_LIST, *SLURM_LISTS) if step else SLURM_LISTS:
            if environ.get(variable):
                return cls(variable, environ[variable], expand(environ[variable], variable), node_name)
        return None

    @classmethod
    def _of_pbs(cls, path: str) -> NodeList:
        try:
            lines = Path(path).read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            raise ClusterError(
                f"{PBS_FILE}={path!r} cannot be read ({error}). Fix: start inside the job, or unset it",
                variable=PBS_FILE,
            ) from error
        if not lines:
            raise ClusterError(f"{PBS_FILE}={path!r} is empty. Fix: unset it", variable=PBS_FILE)
        return cls(PBS_FILE, path, tuple(dict.fromkeys(lines)))  # PBS repeats a host for each of its slots

    @property
    def first(self) -> str:
        """The host of node 0."""
        return self.hosts[0]

    def quote(self) -> str:
        """Return the variable and its value, for a message."""
        return f"{self.variable}={shorten(self.text)!r}"

    def position(self) -> int:
        """Return the index of this host. Raises :class:`ClusterError` if the list does not name it."""
        here = {_short(socket.gethostname()), _short(self.node_name)}
        places = _places(self.hosts)
        if listed := here & places.keys():
            return min(map(places.__getitem__, listed))
        found = _find_here(self.hosts)
        if found is not None:
            return found
        named = shorten(", ".join(self.hosts))
        raise ClusterError(
            f"{self.quote()} names {named}, not this host, {socket.gethostname()}. Fix: start inside the job, or unset"
            f" {self.variable} and export MASTER_ADDR",
            variable=self.variable,
        )


@lru_cache(maxsize=8)
def expand(text: str, variable: str) -> tuple[str, ...]:
    """Return the hosts of a list as SLURM writes it: ``n[1-3,7]``, ``rack[0-1]n[01-16:5]``, ``a,b``.

    ``:5`` takes each fifth. Lightning's own parser knows the first host of one bracket only. Raises
    :class:`ClusterError` for another form.
    """
    hosts: list[str] = []
    for entry in re.split(r"[,\s]+(?![^\[]*\])", text.strip()):
        parts = re.split(r"\[([^\[\]]*)\]", entry)
        choices = [[part] if index % 2 == 0 else _numbers(part) for index, part in enumerate(parts)]
        count = math.prod(map(len, choices))
        if not entry or not 0 < count <= _LARGEST or any("[" in part or "]" in part for part in parts[::2]):
            raise ClusterError(
                f"{variable}={shorten(text)!r} is not a list of nodes. Fix: unset it, and export MASTER_ADDR",
                variable=variable,
            )
        hosts += map("".join, product(*choices))
    return tuple(dict.fromkeys(hosts))


def _numbers(ranges: str) -> list[str]:
    found: list[str] = []
    for each in ranges.split(","):
        match = _RANGE.fullmatch(each.strip())
        if match is None:
            return []
        first, last, step = match[1], match[2] or match[1], int(match[3] or 1)
        if step < 1 or int(last) - int(first) > _LARGEST:
            return []
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1, step)]
    return found


@lru_cache(maxsize=8)
def _places(hosts: tuple[str, ...]) -> dict[str, int]:
    places: dict[str, int] = {}
    for index, host in enumerate(hosts):
        places.setdefault(_short(host), index)
    return places


def _short(host: str) -> str:
    name = host.partition(".")[0].lower()
    return host if name.isdecimal() else name  # an address is not a name with a domain


def _find_here(hosts: Sequence[str]) -> int | None:
    """Return the index of the host whose name or address is one of this machine's."""
    found: list[int] = []

    def look() -> None:
        for index, host in enumerate(hosts):
            with suppress(OSError, UnicodeError):
                family, _, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
                with socket.socket(family, socket.SOCK_DGRAM) as probe:
                    probe.connect(address)  # sends nothing; a machine reaches its own address from that address
                    if probe.getsockname()[0] == address[0]:
                        found.append(index)
                        return

    thread = threading.Thread(target=look, name="resolve the nodes", daemon=True)  # getaddrinfo has no time limit
    thread.start()
    thread.join(_RESOLVE_SECONDS)
    return found[0] if found else None
