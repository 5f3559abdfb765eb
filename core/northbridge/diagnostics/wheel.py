"""The contract of a backend, compared with a wheel of the vendor's software that nothing here installs or runs."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from northbridge.contract import Compared, Wheel, WheelError, compare, contract_of, download
from northbridge.discovery.declared import get
from northbridge.discovery.installed import describe
from northbridge.processes import child
from northbridge.processes.endings import describe_exit
from northbridge.untrusted.text import shorten

_READING = child.Stage("reading the wheel", 300.0, "")
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
        """1 if a run on this release would be refused, or if no name could be read; else 0."""
        names = [each.verdict for each in self.lines if each.kind in ("class", "function", "method", "attribute")]
        unread = bool(names) and set(names) == {"not readable"}
        return int(unread or any(each.is_broken for each in self.lines))

    def page(self) -> Iterator[str]:
        """Yield the lines of a page in Markdown."""
        count = Counter[str](each.verdict for each in self.lines)
        yield f"# The contract of {self.backend} and {shorten(self.wheel)}"
        yield ""
        yield f"    northbridge doctor {self.backend} --wheel {shorten(self.asked)}"
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
            yield "| " + " | ".join(shorten(cell).replace("|", "\\|") for cell in cells) + " |"


def compare_with_wheel(name: str, asked: str) -> WheelReport:
    """Compare the contract of backend ``name`` with the wheel ``asked``: a file, or what pip is to download.

    A child process reads the wheel, because Python's parser can crash on source that was made for that. Raises
    :class:`WheelError`, and the errors of a plugin that cannot be declared.
    """
    contract = contract_of(get(name), who=describe(name))
    if contract is None:
        raise WheelError(f"{describe(name)} has no contract.toml: there is nothing to compare")
    with ExitStack() as stack:
        given = Path(asked)
        file = given if given.suffix == ".whl" else download(asked, Path(stack.enter_context(TemporaryDirectory())))
        question = f"from {__name__} import answer; answer({name!r}, {str(file.absolute())!r})"
        reply = child.ask(question, {}, start=_READING)
    if reply.ending:
        ended = "took too long" if reply.exit_code is None else describe_exit(reply.exit_code)
        raise WheelError(f"{file.name}: the process that read it {ended}. Fix: give another wheel")
    if "error" in reply.facts:
        raise WheelError(reply.facts["error"])
    lines = tuple(Compared(**each) for each in reply.facts["lines"])
    return WheelReport(name, contract.path.name, file.name, asked, lines)


def answer(name: str, file: str) -> None:
    """Report each line of the contract of backend ``name`` from this process, a child, and end it."""
    report = child.Reporter()
    warnings.simplefilter("ignore")  # the parser's, of a vendor's source
    backend = get(name)
    contract = contract_of(backend, who=describe(name))
    assert contract is not None
    try:
        wheel = Wheel(Path(file))
        if not any(package in wheel.modules for package in contract.packages):
            names = " or ".join(contract.distributions or contract.packages)
            raise WheelError(f"{wheel.name} has no {' or '.join(contract.packages)}. Fix: give a wheel of {names}")
        lines = compare(contract, wheel, backend.device.type)
    except WheelError as error:
        report.end(error=str(error))
    report.end(lines=[asdict(each) for each in lines])
