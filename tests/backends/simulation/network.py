"""Two nodes on one machine: two network namespaces, joined by a veth pair.

A user namespace gives the rights, so that nobody has to be root. What holds the namespaces are two processes that wait
for the end of their input: however the process ends that started them, they end with it, and the namespaces with them.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

INTERFACE = "eth0"
ADDRESSES = ("10.77.0.1", "10.77.0.2")
_WAIT = ["sh", "-c", "echo ready; exec cat >/dev/null"]
_LIMIT_S = 20.0


class NoNamespacesError(Exception):
    """This machine makes no network namespaces, or does not join them; the text says what it answered."""


@dataclass(frozen=True)
class Node:
    """One of the two: its address, and the process that holds its network."""

    address: str
    holder: int

    @property
    def inside(self) -> list[str]:
        """The command prefix that runs a command on this node."""
        return ["nsenter", f"--target={self.holder}", "--user", "--preserve-credentials", "--net", "--"]

    @property
    def network(self) -> int:
        """The kernel's name for the node's network namespace."""
        return Path(f"/proc/{self.holder}/ns/net").stat().st_ino


@contextmanager
def two_nodes() -> Iterator[tuple[Node, Node]]:
    """Make two nodes that reach each other; at the end nothing of them is left, nor any process that runs on them.

    Raises :class:`NoNamespacesError` where that cannot be done.
    """
    with ExitStack() as held:
        try:
            first = held.enter_context(_holding(ADDRESSES[0], "unshare", "--user", "--map-root-user", "--net", "--"))
            second = held.enter_context(_holding(ADDRESSES[1], *first.inside, "unshare", "--net", "--"))
            _do(first, "link", "add", INTERFACE, "type", "veth", "peer", "name", INTERFACE, "netns", str(second.holder))
            for node in (first, second):
                _do(node, "address", "add", f"{node.address}/24", "dev", INTERFACE)
                for interface in ("lo", INTERFACE):
                    _do(node, "link", "set", interface, "up")
        except (OSError, subprocess.SubprocessError) as error:
            raise NoNamespacesError(str(error)) from error
        yield first, second


def processes_in(network: int) -> list[int]:
    """Return the processes, as far as this user may see them, that are in a network."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or it is another user's
            if (process / "ns/net").stat().st_ino == network:
                found.append(int(process.name))
    return found


@contextmanager
def _holding(address: str, *command: str) -> Iterator[Node]:
    pipe = subprocess.PIPE
    # A session of its own: Ctrl-C is for the one that cleans up.
    process = subprocess.Popen([*command, *_WAIT], stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise OSError(f"{' '.join(command)}: {process.communicate(timeout=_LIMIT_S)[1].decode().strip()}")
        node = Node(address, process.pid)
        network = node.network
        try:
            yield node
        finally:
            process.kill()  # first, that nothing more can enter
            while left := processes_in(network):
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()


def _do(node: Node, *words: str) -> None:
    done = subprocess.run([*node.inside, "ip", *words], capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
