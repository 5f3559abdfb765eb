"""The environment: the system, Northbridge's variables, and those for the rendezvous of a run's processes.

The report leaves the machine, and a variable may hold a token: most are reported without their values.
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from northbridge.errors import ClusterError
from northbridge.launch.cluster import check_variables
from northbridge.launch.environment import VARIABLES, launcher_of
from northbridge.settings import CoreSettings

_MEETING = ("MASTER_ADDR", "MASTER_PORT")

HIDDEN = "(not shown)"
"""Replaces the value of a variable that is not in :data:`SHOWN`."""

_OF_TORCH = (
    "OMP_NUM_THREADS",
    "TORCH_CPP_LOG_LEVEL",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
    "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_SHOW_CPP_STACKTRACES",
)
_OF_LAUNCHERS = (*_MEETING, *(name for names in VARIABLES.values() for name in names if name))

SHOWN = frozenset({*map(CoreSettings.variable, CoreSettings.model_fields), *_OF_TORCH, *_OF_LAUNCHERS})
"""The names whose values are reported. The page about the doctor lists them."""


@dataclass(frozen=True)
class Variable:
    """One variable; ``value`` is None if a needed variable is not set, and may be :data:`HIDDEN`."""

    name: str
    value: str | None
    verdict: Literal["right", "wrong", "note"]
    reason: str = ""


def examine_environment(environ: Mapping[str, str], backends: Iterable[str]) -> tuple[Variable, ...]:
    """Check ``environ`` for an environment in which the named backends are installed.

    A backend checks the variables that only it reads. Raises :class:`SettingsError` for a wrong variable of the core's,
    which would make every other check wrong.
    """
    CoreSettings.read(environ)
    return (*_settings(environ, backends), *_cluster(environ))


def tell_value(name: str, value: str, also: Collection[str] = ()) -> str:
    """Return ``value`` if ``name`` is in :data:`SHOWN` or in ``also``, otherwise :data:`HIDDEN`."""
    return value if name in SHOWN or name in also else HIDDEN


def describe_system() -> str:
    """Return the system, its release, the architecture and the C library.

    :func:`platform.platform` runs ``uname`` by name for the same text. If PATH has an empty entry, it may find one in
    the working directory.
    """
    found = platform.uname()
    libc = "".join(platform.libc_ver())
    return "-".join((found.system, found.release, found.machine)) + (f"-with-{libc}" if libc else "")


def _settings(environ: Mapping[str, str], backends: Iterable[str]) -> Iterable[Variable]:
    core = {CoreSettings.variable(field) for field in CoreSettings.model_fields}
    prefixes = {name: f"{CoreSettings.prefix}{name.upper()}_" for name in backends}
    for name, value in sorted(environ.items()):
        if not name.startswith(CoreSettings.prefix):
            continue
        readers = [backend for backend, prefix in prefixes.items() if name.startswith(prefix)]
        if name in core or readers:
            yield Variable(
                name, tell_value(name, value), "right", f"read by the backend {readers[0]!r}" if readers else ""
            )
        else:
            yield Variable(name, HIDDEN, "note", "no installed package reads it; it may be misspelt or left over")


def _cluster(environ: Mapping[str, str]) -> Iterable[Variable]:
    wrong, notes = _complaints(environ)
    names = [*_MEETING, *filter(None, VARIABLES[launcher_of(environ)])]
    for name in dict.fromkeys([*(each for each in names if each in environ), *wrong]):
        if name in wrong:
            yield Variable(name, environ.get(name), "wrong", wrong[name])
        else:
            note = next((each for each in notes if each.startswith(f"{name}=")), "")
            yield Variable(name, environ[name], "note" if note else "right", note)


def _complaints(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the fault of each wrong variable, and doubts, which begin with a variable's name."""
    wrong: dict[str, str] = {}
    left = dict(environ)
    doubt = ""
    while True:
        try:
            doubt = check_variables(left)
            break
        except ClusterError as error:
            wrong[error.variable] = str(error)
            # Further faults show without this variable, unless its absence is the fault.
            if left.pop(error.variable, None) is None:
                break
    # Without the wrong variables, others may seem to be missing.
    told = {name: text for name, text in wrong.items() if name in environ or len(wrong) == 1}
    return told, [doubt] if doubt else []
