"""The contract of a backend, compared with a wheel of the vendor's software that nothing here installs or runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from northbridge.contract import Compared, Wheel, WheelError, compare, contract_of, download
from northbridge.discovery.declared import get
from northbridge.discovery.installed import describe
from northbridge.untrusted.text import clean

_VERDICTS = ("holds", "differs", "absent", "not readable")


@dataclass(frozen=True)
class WheelReport:
    """Each line of a backend's contract, and what the source in one wheel says of it."""

    backend: str
    contract: str
    wheel: str
    asked: str
    lines: tuple[Compared, ...]

    @property
    def exit_code(self) -> int:
        """1 if a run on this release would be refused, else 0."""
        return int(any(each.is_broken for each in self.lines))

    def page(self) -> Iterator[str]:
        """Yield the lines of a page in Markdown."""
        count = Counter[str](each.verdict for each in self.lines)
        yield f"# The contract of {self.backend} and {self.wheel}"
        yield ""
        yield f"    northbridge doctor {self.backend} --wheel {self.asked}"
        yield ""
        yield f"{len(self.lines)} lines of {self.contract}: " + ", ".join(
            f"{count[verdict]} {verdict}" for verdict in _VERDICTS
        )
        yield ""
        yield (
            "The wheel was read as source: nothing of it was installed or run. *Not readable* is what shows at run time"
            " alone."
        )
        yield ""
        yield "| line | symbol | kind | required | verdict | where, or why |"
        yield "|---|---|---|---|---|---|"
        for each in self.lines:
            required = "yes" if each.required else "no"
            cells = (str(each.line), f"`{each.name}`", each.kind, required, each.verdict, each.found)
            yield "| " + " | ".join(clean(cell).replace("|", "\\|") for cell in cells) + " |"


def compare_with_wheel(name: str, asked: str) -> WheelReport:
    """Compare the contract of backend ``name`` with the wheel ``asked``: a file, or what pip is to download.

    Raises :class:`WheelError`, and the errors of a plugin that cannot be declared.
    """
    backend = get(name)
    contract = contract_of(backend, who=describe(name))
    if contract is None:
        raise WheelError(f"{describe(name)} has no contract.toml: there is nothing to compare")
    with ExitStack() as stack:
        given = Path(asked)
        file = given if given.suffix == ".whl" else download(asked, Path(stack.enter_context(TemporaryDirectory())))
        wheel = Wheel(file)
        if not any(package in wheel.modules for package in contract.packages):
            names = " or ".join(contract.distributions or contract.packages)
            raise WheelError(f"{wheel.name} has no {' or '.join(contract.packages)}. Fix: give a wheel of {names}")
        return WheelReport(name, contract.path.name, wheel.name, asked, compare(contract, wheel, backend.device.type))
