"""The processes in which things are measured.

This process stays small and imports no torch: a child's peak memory, as the system counts it, begins with that of the
process that started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from northbridge_conformance.runs.processes import reserve_port

ROOT = Path(__file__).parents[1]
LIMIT_S = 900.0
"""The time limit of one child."""

_KEPT = frozenset({"NORTHBRIDGE_CPU_SIM_CACHE"})
_LEFT_OUT = frozenset(
    {
        *("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "RANK", "LOCAL_RANK", "WORLD_SIZE", "PL_GLOBAL_SEED"),
        "PYTHONDONTWRITEBYTECODE",  # with it, each start compiles our modules again
    }
)


class MeasurementError(Exception):
    """A child did not do what was to be measured."""


def environment(added: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child: this one, without what would change a run, and ``added``."""
    return {
        name: text
        for name, text in os.environ.items()
        if name not in _LEFT_OUT and (name in _KEPT or not name.startswith(("NORTHBRIDGE_", "_NORTHBRIDGE_")))
    } | dict(added or {})


def python(code: str, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """Return what ``code`` prints in a Python of its own. Raises :class:`MeasurementError`."""
    return run(python_command(code, *arguments), environ=environ)


def python_command(code: str, *arguments: str) -> list[str]:
    """Return the command line of a Python that runs ``code``."""
    return [sys.executable, "-c", code, *arguments]


def run(command: list[str], *, environ: Mapping[str, str] | None = None) -> str:
    """Return what ``command`` prints. Raises :class:`MeasurementError` where it fails, or outlasts the limit."""
    with started(command, environ=environ) as (process, said):
        try:
            answer, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise MeasurementError(f"{' '.join(command)} did not end within {LIMIT_S:g} s:\n{tail(said)}") from None
        if process.returncode != 0:
            raise MeasurementError(f"{' '.join(command)} ended with {process.returncode}:\n{tail(said)}")
    return answer


@contextlib.contextmanager
def started(
    command: list[str], *, environ: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start ``command`` in the repository, with pipes; end it, and all that it started, at the end.

    Gives the process, and the file that it writes its stderr to.
    """
    with tempfile.NamedTemporaryFile(prefix="northbridge-bench-") as errors:
        process = subprocess.Popen(
            command,
            env=environment(environ),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        try:
            yield process, Path(errors.name)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@contextlib.contextmanager
def conversation(
    command: list[str], *, ranks: int = 1, environ: Mapping[str, str] | None = None, chips: Sequence[str] = ()
) -> Iterator[Callable[[Mapping[str, Any]], dict[str, Any]]]:
    """Start a process that answers questions, a line of JSON each, and sleeps in between (:mod:`bench.job`).

    Where there are several ranks, each is asked, and rank 0 answers. With ``chips``, each rank is a node that simulates
    one of them. Raises :class:`MeasurementError` where one ends
    instead.
    """
    with contextlib.ExitStack() as stack:
        environs = [{}] if ranks == 1 else _rank_environments(ranks)
        for rank, chip in enumerate(chips):
            environs[rank] |= {"NODE_RANK": str(rank), "LOCAL_RANK": "0", "NORTHBRIDGE_SIMULATE": chip}
        processes = [stack.enter_context(started(command, environ={**each, **(environ or {})})) for each in environs]

        def ask(question: Mapping[str, Any]) -> dict[str, Any]:
            for process, _ in processes:
                assert process.stdin is not None
                with contextlib.suppress(BrokenPipeError):  # it has ended: the empty answer says so
                    print(json.dumps(question), file=process.stdin, flush=True)
            first, _ = processes[0]
            assert first.stdout is not None
            line = first.stdout.readline()
            if not line:
                said = "\n".join(tail(errors) for _, errors in processes)
                raise MeasurementError(f"{' '.join(command)} ended when it was asked {question}:\n{said}")
            answer: dict[str, Any] = json.loads(line)
            return answer

        yield ask


def _rank_environments(ranks: int) -> list[dict[str, str]]:
    """Return what tells each rank who it is and where rank 0 listens, as torchrun does."""
    together = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserve_port())}
    together |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(ranks)) | {"NODE_RANK": "0", "GROUP_RANK": "0"}
    return [{**together, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def tail(said: Path) -> str:
    """Return the end of what a child said."""
    return said.read_text(errors="replace")[-4000:]
