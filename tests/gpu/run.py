"""``make gpu``: train, measure and check ``examples/vendor_cuda`` on this machine's GPU, in nine minutes, offline.

    python3 tests/gpu/run.py --out .gpu/report

It needs this repository, a Python with pip and a torch that finds a GPU, and the wheels of ``make gpu-wheels``, which
are installed into a temporary folder. Each part has a budget of seconds, and is ended with SIGTERM when that is over:
the conformance suite then writes a report of the tests that ended. The folder ``--out`` gets the summary, the report
with its page, and what the parts printed.

Exit codes: 0 every part passed; 1 a part failed or was over its budget; 2 it could not begin; 3 torch finds no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
VENDOR = ROOT / "examples" / "vendor_cuda"
SECONDS = 540.0
"""Nine minutes."""

GRACE_S = 20.0
"""The time that a part has to end after SIGTERM; the suite writes its report then."""

TORCH_S = 60.0
"""The time that torch has to count the GPUs."""

LEAST_S = 5.0
"""With less than this left, a part is not started."""

FAILURES = ("FAIL", "TIMEOUT", "UNDERCLAIM")
NO_GPU = 3

_FACTS = """
import json, torch
gpu = torch.cuda.is_available()
print(json.dumps({
    "torch": torch.__version__,
    "CUDA": torch.version.cuda,
    "card": f"{torch.cuda.get_device_name(0)}, 1 of {torch.cuda.device_count()}" if gpu else None,
}))
"""
_CONFORMANCE = "import sys; from northbridge.cli.app import main; sys.argv[0] = 'northbridge'; main()"


class NotPossibleError(Exception):
    """Nothing can run; the message has the reason and the fix."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Part:
    """One command for this Python, and its budget."""

    name: str
    command: tuple[str, ...]
    seconds: float
    judge: Callable[[int, str], tuple[bool, str]]
    """Return whether it passed, and what it found, from the exit code and the output: also if it was ended."""


@dataclass(frozen=True)
class Result:
    """A part that has ended."""

    name: str
    verdict: str
    """``passed``, ``failed``, ``over budget`` or ``not run``."""

    seconds: float
    found: str


# --- The parts


def list_parts(asked: argparse.Namespace, out: Path, folder: Path) -> list[Part]:
    """Return the parts; the suite is the last and has the rest of the time."""
    accelerator, reference = (asked.stand_in, "cpu") if asked.stand_in else ("nb_cuda", "cuda")
    steps = ("--steps", "2") if asked.stand_in else ()
    rounds = (*steps, "--size=small", "--warm-up=1", "--rounds=1") if asked.stand_in else ("--rounds=4",)
    measured, report = folder / "step_time.json", out / "report"
    demo, sharded, step_time = (str(VENDOR / f"{name}.py") for name in ("demo", "sharded", "step_time"))
    suite = ("conformance", accelerator, "--level", asked.level, "--out", str(report))

    def judge_step_time(code: int, said: str) -> tuple[bool, str]:
        if not measured.exists():
            return judge_code(code or 1, said)
        facts = json.loads(measured.read_text())
        ratio = f"{' ÷ '.join(facts['pair'])}: {facts['ratio']:.4f}, of {facts['bound']} at most"
        return (True, f"{ratio}; a stand-in's says nothing") if asked.stand_in else (code == 0, ratio)

    return [
        Part("demo", (demo, "--accelerator", accelerator, *steps), 90.0, judge_code),
        Part("FSDP2 on one rank", (sharded, "--accelerator", accelerator, *steps), 90.0, judge_code),
        Part(
            "step time",
            (step_time, "--pair", accelerator, reference, *rounds, "--seconds", "90", "--out", str(measured)),
            150.0,
            judge_step_time,
        ),
        Part(
            f"conformance up to {asked.level}",
            ("-c", _CONFORMANCE, *suite, *(f"--only={text}" for text in asked.only)),
            SECONDS,
            lambda code, said: judge_conformance(code, said, report / "report.json"),
        ),
    ]


def judge_code(code: int, said: str) -> tuple[bool, str]:
    """A command that ends with 0 passed; its last lines are what it found."""
    return code == 0, "; ".join(_last_lines(said, 2))


def judge_conformance(code: int, said: str, written: Path) -> tuple[bool, str]:
    """The suite passed with all that was asked for, or with C2, which is what one GPU earns: C3 takes several."""
    if not written.exists():
        return False, f"no report, exit code {code}: {'; '.join(_last_lines(said, 2))}"
    report = json.loads(written.read_text())
    level = next((each["name"] for each in reversed(report["levels"]) if each["granted"]), "no level")
    verdicts = Counter(test["verdict"] for test in report["tests"])
    words = f"{level}: {', '.join(f'{number:,} {verdict}' for verdict, number in verdicts.most_common())}"
    return not verdicts.keys() & FAILURES and (code == 0 or level == "C2"), words


def _last_lines(said: str, number: int) -> list[str]:
    return [line.strip() for line in said.strip().splitlines()][-number:] or ["it printed nothing"]


# --- Running them


def run_parts(
    parts: Iterable[Part], until: float, folder: Path, environ: Mapping[str, str], log: IO[str]
) -> Iterable[Result]:
    """Run one part after the other in ``folder``; all end before ``until``, a time of ``time.monotonic()``."""
    for part in parts:
        seconds = min(part.seconds, until - time.monotonic() - GRACE_S)
        if seconds < LEAST_S:
            yield Result(part.name, "not run", 0.0, "the parts before it used its time")
        else:
            yield run_part(part, seconds, folder, environ, log)


def run_part(part: Part, seconds: float, folder: Path, environ: Mapping[str, str], log: IO[str]) -> Result:
    """Run ``part`` in ``folder`` for at most ``seconds``, and return its result.

    It then gets SIGTERM, and :data:`GRACE_S` for its end; what is left of its session is killed.
    """
    printed, command = folder / "printed.txt", [sys.executable, *part.command]
    began, over = time.monotonic(), False
    with printed.open("wb") as output:
        nothing, to_stdout = subprocess.DEVNULL, subprocess.STDOUT
        process = subprocess.Popen(
            command, env=environ, cwd=folder, stdin=nothing, stdout=output, stderr=to_stdout, start_new_session=True
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            over = True
        finally:
            if process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE_S)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    took = time.monotonic() - began
    said = printed.read_text(errors="replace")
    log.write(f"===== {part.name}: exit code {process.returncode}, {took:.1f} s\n{said}\n")
    log.flush()
    passed, found = part.judge(process.returncode, said)
    if over:
        return Result(part.name, "over budget", took, f"ended after {seconds:.0f} s: {found}")
    return Result(part.name, "passed" if passed else "failed", took, found)


# --- The machine


def find_facts(stand_in: str | None) -> dict[str, Any]:
    """Return facts about the GPU and its software; raises :class:`NotPossibleError` without torch or a GPU."""
    command = [sys.executable, "-c", _FACTS]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=TORCH_S, check=False)
    except subprocess.TimeoutExpired:
        raise NotPossibleError(
            f"torch did not count its GPUs within {TORCH_S:g} s. Fix: see if nvidia-smi does"
        ) from None
    if asked.returncode:
        reason = _last_lines(asked.stderr, 1)[0]
        raise NotPossibleError(f"{sys.executable} cannot import torch: {reason}. Fix: GPU_PYTHON=/a/python/with/torch")
    facts: dict[str, Any] = json.loads(asked.stdout.splitlines()[-1])
    if not stand_in and not facts["card"]:
        why = "finds no GPU here" if facts["CUDA"] else "was built without CUDA"
        raise NotPossibleError(
            f"torch {facts['torch']} {why}: nothing ran, and nothing is claimed. Fix: run it where torch finds an"
            " NVIDIA GPU, or rehearse it: make gpu ARGS='--stand-in cpu_sim'",
            NO_GPU,
        )
    return facts | ({"card": f"no GPU: {stand_in} stands in for it"} if stand_in else {"driver": _ask_driver()})


def _ask_driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return asked.stdout.split("\n")[0].strip()


def install(wheels: Path, site: Path) -> list[str]:
    """Install all ``wheels`` of a folder into ``site``, return their names; raises :class:`NotPossibleError`."""
    files = sorted(map(str, wheels.glob("*.whl")))
    if not files:
        raise NotPossibleError(
            f"{wheels} has no wheels. Fix: make gpu-wheels where there is a network, and copy it here"
        )
    options = ("--quiet", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(site), *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        version = ".".join(map(str, sys.version_info[:2]))
        raise NotPossibleError(
            f"pip could not install {wheels} for Python {version}: {_last_lines(done.stderr, 1)[0]}."
            f" Fix: make gpu-wheels ARGS='--python {version}'"
        )
    return ["-".join(Path(file).name.split("-")[:2]) for file in files]


def write_summary(out: Path, facts: Mapping[str, Any], results: list[Result]) -> str:
    """Write ``summary.md``, and return its text."""
    began = f"{datetime.now(timezone.utc).isoformat(timespec='seconds')}, Python {sys.version.split()[0]}"
    lines = [f"{began}; {'; '.join(f'{name} {value}' for name, value in facts.items())}", ""]
    lines += ["| part | verdict | seconds | found |", "|---|---|---|---|"]
    for each in results:
        found = each.found.replace("|", "\\|")[:400]
        lines.append(f"| {each.name} | {each.verdict} | {each.seconds:.0f} | {found} |")
    (out / "summary.md").write_text("\n".join(lines) + "\n")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run everything, and return the exit code."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--wheels", type=Path, default=ROOT / ".gpu")
    options.add_argument("--out", type=Path, default=ROOT / ".gpu" / "report")
    options.add_argument("--seconds", type=float, default=SECONDS, help="for everything together")
    options.add_argument("--level", default="C3", help="the highest level of the conformance suite to run")
    options.add_argument("--only", action="append", default=[], help="as `northbridge conformance` has it")
    options.add_argument("--stand-in", help="rehearse on this backend, without a GPU, in a small size")
    asked = options.parse_args(arguments)
    until = time.monotonic() + asked.seconds
    out: Path = asked.out.absolute()
    results: list[Result] = []
    try:
        facts = find_facts(asked.stand_in)
        with tempfile.TemporaryDirectory(prefix="northbridge-gpu-", ignore_cleanup_errors=True) as name:
            site, folder = Path(name) / "site", Path(name) / "work"
            folder.mkdir()
            facts["wheels"] = ", ".join(install(asked.wheels, site))
            path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
            out.mkdir(parents=True, exist_ok=True)
            (out / "report" / "report.json").unlink(missing_ok=True)  # an earlier run's
            with (out / "log.txt").open("w") as log:
                environ = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
                for result in run_parts(list_parts(asked, out, folder), until, folder, environ, log):
                    results.append(result)
                    write_summary(out, facts, results)  # after each part, in case the run is interrupted
                    print(f"{result.name}: {result.verdict} after {result.seconds:.0f} s: {result.found}", flush=True)
    except NotPossibleError as error:
        print(f"make gpu: {error}", file=sys.stderr)
        return error.code
    print(f"\n{write_summary(out, facts, results)}\n\n{out}")
    return int(any(result.verdict != "passed" for result in results))


if __name__ == "__main__":
    for stop in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop, lambda number, _frame: sys.exit(128 + number))  # ends the part that runs, too
    sys.exit(main(sys.argv[1:]))
