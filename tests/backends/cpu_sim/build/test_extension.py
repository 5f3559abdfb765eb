"""Compiling the simulated chip, shown on an extension of ten lines that compiles in a second."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NoReturn

import ninja
import pytest
from tests.scripts import start_python

import northbridge
import northbridge_cpu_sim.build.compile
from northbridge.processes.environment import compiling_nothing
from northbridge_cpu_sim.build.cache import keep
from northbridge_cpu_sim.build.compile import REASON, announced
from northbridge_cpu_sim.build.extension import NAME, build, locate
from northbridge_cpu_sim.build.recipe import Recipe, find_compiler, key
from northbridge_cpu_sim.errors import BuildError
from northbridge_cpu_sim.settings import SimSettings

LIMIT = 60  # seconds for what takes about five

EXTENSION = """
#include <Python.h>
#define JOIN(a, b) a##b
#define INIT(name) JOIN(PyInit_, name)
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "chip", nullptr, -1, nullptr};
PyMODINIT_FUNC INIT(TORCH_EXTENSION_NAME)() {
  PyObject* module = PyModule_Create(&definition);
  PyModule_AddIntConstant(module, "answer", 42);
  return module;
}
"""

RANK = """
import sys, time
from pathlib import Path
import northbridge_cpu_sim.build.compile as compilation
from northbridge_cpu_sim.build.extension import locate
from northbridge_cpu_sim.errors import BuildError
from northbridge_cpu_sim.build.recipe import Recipe
from northbridge_cpu_sim.settings import SimSettings

class Lock(compilation.FileLock):
    def acquire(self, *args, **kwargs):
        print("waiting", flush=True)
        return super().acquire(*args, **kwargs)

compilation.FileLock = Lock
compilation.QUIET = compilation.PATIENCE  # no rank says that it waits: how long is the machine's affair
try:
    print(locate(SimSettings.read(), Recipe((Path(sys.argv[1]),))))
except BuildError as error:
    sys.exit(str(error))
"""

LATER_START = """
import json, sys, time
from pathlib import Path
import northbridge_cpu_sim.build.extension
from northbridge_cpu_sim.build.recipe import Recipe
from northbridge_cpu_sim.settings import SimSettings

recipe, settings = Recipe((Path(sys.argv[1]),)), SimSettings.read()
seconds = []
for _ in range(5):
    start = time.perf_counter()
    northbridge_cpu_sim.build.extension.locate(settings, recipe)
    seconds.append(time.perf_counter() - start)
loaded = [name for name in json.loads(sys.argv[2]) if name in sys.modules]
module = northbridge_cpu_sim.build.extension.build(settings, recipe)
again = northbridge_cpu_sim.build.extension.build(settings, recipe)
answers = {"answer": module.answer, "once": module is again is sys.modules[sys.argv[3]]}
print(json.dumps({**answers, "seconds": seconds, "loaded": loaded}))
"""


@dataclass(frozen=True)
class Place:
    """Sources and a cache of their own, and how to build there in another process."""

    root: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def sources(self) -> Path:
        return self.root / "csrc"

    @property
    def recipe(self) -> Recipe:
        return Recipe((self.sources,))

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def settings(self) -> SimSettings:
        return SimSettings(cache=self.cache)

    def compiler(self, script: str) -> str:
        """Make a compiler that runs ``script`` before it compiles a file; return its path."""
        path = self.root / "g++"
        path.write_text(f'#!/bin/sh\ncase " $* " in *" -c "*)\n{script}\n;; esac\nexec c++ "$@"\n')
        path.chmod(0o700)
        return str(path)

    def start(
        self, *arguments: str, program: str = RANK, environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        given = {**os.environ, "NORTHBRIDGE_CPU_SIM_CACHE": str(self.cache), **(environ or {})}
        process = start_python("-c", program, str(self.sources), *arguments, environ=given)
        self.started.append(process)
        return process

    def end(self) -> None:
        """End what a failed test has left running."""
        for process in self.started:
            process.kill()
            process.communicate()


def place_in(root: Path, source: str = EXTENSION) -> Place:
    place = Place(root)
    place.sources.mkdir()
    (place.sources / "chip.cpp").write_text(source)
    return place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = place_in(tmp_path)
    yield place
    place.end()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, str]:
    """A place where the chip has been compiled, and what that said on stderr."""
    place = place_in(tmp_path_factory.mktemp("compiled"))
    broken = place.root / "path" / "ninja"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o700)
    rank = place.start(environ={"PATH": f"{broken.parent}:{os.environ['PATH']}"})
    _, said = rank.communicate(timeout=LIMIT)
    assert rank.returncode == 0, said
    return place, said


def test_first_build_says_why_it_takes_a_minute(compiled: tuple[Place, str]) -> None:
    """It leaves the chip and the lock alone, and uses the package's ninja: the first one on PATH fails."""
    assert compiled[1] == f"{REASON}\n"
    assert sorted(path.suffix for path in compiled[0].cache.iterdir()) == [".lock", ".so"]


def test_later_start_is_quick_silent_and_without_builder(compiled: tuple[Place, str]) -> None:
    builder = ["torch.utils.cpp_extension", "filelock", "rich", "ninja"]
    process = compiled[0].start(json.dumps(builder), NAME, program=LATER_START)
    out, said = process.communicate(timeout=LIMIT)
    answers = json.loads(out)

    assert said == ""
    assert (answers["answer"], answers["once"]) == (42, True)
    assert answers["loaded"] == []
    assert median(answers["seconds"]) < 0.05


def test_a_later_start_needs_no_leave_to_write(compiled: tuple[Place, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for function in ("mkdir", "open", "rename", "replace", "unlink"):
        monkeypatch.setattr(os, function, refuse)

    assert locate(compiled[0].settings, compiled[0].recipe).is_file()


def test_a_damaged_or_broken_chip(compiled: tuple[Place, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is damaged is compiled again; one that was kept and does not load is an error."""
    monkeypatch.delitem(sys.modules, NAME, raising=False)  # another test may have loaded the real one
    place = place_in(tmp_path)
    shutil.copytree(compiled[0].cache, place.cache)
    (chip,) = place.cache.glob("*.so")
    whole = chip.read_bytes()
    chip.write_bytes(whole[:1000])

    locate(place.settings, place.recipe)

    assert len(chip.read_bytes()) == len(whole)

    chip.with_suffix(".built").write_bytes(b"no machine code")
    keep(chip.with_suffix(".built"), chip)

    with pytest.raises(BuildError) as caught:
        build(place.settings, place.recipe)

    assert "the compiled chip does not load: " in str(caught.value)
    assert str(caught.value).endswith(f"Fix: delete {chip}")
    assert caught.value.__suppress_context__
    assert NAME not in sys.modules


def test_a_source_of_a_later_folder_replaces_one(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    (place.sources / "answer.h").write_text("#define ANSWER 43")
    later = tmp_path / "a folder of a vendor"
    later.mkdir()
    (later / "chip.cpp").write_text('#include "answer.h"\n' + EXTENSION.replace("42", "ANSWER"))
    recipe = Recipe((place.sources, later), ("-O2", "-DCHIP_KEY=XPU"))

    chip = build(place.settings, recipe)
    del sys.modules[NAME]

    assert chip.answer == 43
    assert locate(place.settings, recipe) != locate(place.settings, place.recipe)


@pytest.mark.parametrize(
    ("then", "code", "complaint"),
    [("true", 0, ""), ("echo 'x.cpp: error: no' >&2; exit 1", 1, "x.cpp: error: no")],
    ids=["succeeds", "fails"],
)
def test_ranks_that_start_together_compile_once(place: Place, then: str, code: int, complaint: str) -> None:
    gate, calls = place.root / "gate", place.root / "calls"
    os.mkfifo(gate)
    # The first compiler waits until all ranks want the lock.
    compiler = place.compiler(
        f"echo call >> {calls}; mkdir {place.root}/first 2> /dev/null && read line < {gate}; {then}"
    )
    ranks = [place.start(environ={"CXX": compiler}) for _ in range(3)]
    for rank in ranks:
        assert rank.stdout is not None
        assert rank.stdout.readline() == "waiting\n"

    gate.write_text("go\n")
    results = [rank.communicate(timeout=LIMIT) for rank in ranks]

    assert [rank.returncode for rank in ranks] == [code] * 3
    assert sum(said.startswith(f"{REASON}\n") for _, said in results) == 1
    ((out, said),) = {(out, said.removeprefix(f"{REASON}\n")) for out, said in results}
    assert (out == "", said == "") == (code != 0, code == 0)
    assert complaint in said
    assert calls.read_text() == "call\n"


def test_killed_build_ends_its_compiler(place: Place) -> None:
    started = place.root / "started"
    os.mkfifo(started)
    # The first compiler hangs, those that follow work: both builds have one key.
    compiler = place.compiler(f"if mkdir {place.root}/first 2> /dev/null; then echo $$ > {started}; exec sleep 600; fi")
    killed = place.start(environ={"CXX": compiler})
    hanging = os.pidfd_open(int(started.read_text()))
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    leftovers = list(place.cache.glob("building-*"))

    following = place.start(environ={"CXX": compiler})
    _, said = following.communicate(timeout=LIMIT)

    assert (following.returncode, said) == (0, f"{REASON}\n")
    assert len(leftovers) == 1
    assert not list(place.cache.glob("building-*"))
    # A pidfd is readable as soon as its process has ended.
    assert select.select([hanging], [], [], 30)[0] == [hanging]
    os.close(hanging)


@pytest.mark.parametrize("holder", ["process {}", "another process"])
def test_a_process_that_waits_says_for_whom(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], holder: str
) -> None:
    monkeypatch.setattr(northbridge_cpu_sim.build.compile, "QUIET", 0.05)
    monkeypatch.setattr(northbridge_cpu_sim.build.compile, "PATIENCE", 0.1)
    if holder == "another process":
        monkeypatch.setattr(Path, "read_text", refuse_to_read)
    place.cache.mkdir(mode=0o700)
    lock = place.cache / f"{key(place.recipe, find_compiler())}.lock"
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        with pytest.raises(BuildError) as caught:
            locate(place.settings, place.recipe)

    who = holder.format(os.getpid())
    assert capsys.readouterr().err == f"waiting for {who}, which compiles the simulated chip\n"
    assert str(caught.value).startswith(f"{who} has compiled for 0.0 minutes. Fix: end it (fuser {lock}), or set")


def refuse_to_read(_path: Path) -> NoReturn:
    raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def test_build_of_another_key_is_left_alone(place: Place) -> None:
    """As that of another Python or torch; what a killed build of one has left is removed."""
    place.cache.mkdir(mode=0o700)
    running, killed = place.cache / f"building-{'a' * 32}-1", place.cache / f"building-{'b' * 32}-2"
    running.mkdir()
    killed.mkdir()
    with open(place.cache / f"{'a' * 32}.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        assert locate(place.settings, place.recipe).is_file()

    assert list(place.cache.glob("building-*")) == [running]


def test_a_process_that_only_looks_compiles_nothing(place: Place) -> None:
    with compiling_nothing(), pytest.raises(northbridge.SoftwareMissingError) as caught:
        locate(place.settings, place.recipe)

    assert str(caught.value) == (
        "the simulated chip is not compiled yet. Fix: use it, which compiles it in half a minute"
    )
    assert list(place.cache.iterdir()) == []


def test_compile_failure_shows_first_error_and_log(tmp_path: Path) -> None:
    place = place_in(tmp_path, "#include <stdlib.h>\nint answer() { return undeclared; }\n")

    with pytest.raises(BuildError) as caught:
        locate(place.settings, place.recipe)

    (log,) = place.cache.glob("*.log")
    assert re.match(
        r"compiling the simulated chip failed: .*chip\.cpp:2:\d+: error: .*undeclared.*; ", str(caught.value)
    )
    assert str(caught.value).endswith(f"; see {log}")
    assert "Traceback" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "ninja" in log.read_text()
    assert not list(place.cache.glob("building-*"))


def test_a_build_that_succeeds_removes_the_log_of_a_failure(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", place.compiler(f"mkdir {place.root}/first 2> /dev/null && exit 1"))
    with pytest.raises(BuildError):
        locate(place.settings, place.recipe)

    chip = locate(place.settings, place.recipe)

    assert sorted(path.name for path in place.cache.iterdir()) == [chip.with_suffix(".lock").name, chip.name]


MORE_ROOM = "make room there, or set NORTHBRIDGE_CPU_SIM_CACHE to a folder on another disk"
CURES = {
    "fatal error: error writing to /t/a.s: No space left on device": MORE_ROOM,
    "/usr/bin/ld: final link failed: Disk quota exceeded": MORE_ROOM,
    "g++: fatal error: Killed signal terminated program cc1plus": "set MAX_JOBS=1, because the memory was too small",
    "chip.cpp:2:10: fatal error: Python.h: No such file or directory": "apt install python3-dev",
    "g++: fatal error: cannot execute 'cc1plus': execvp: No such file or directory": (
        "apt install g++, because the compiler is incomplete"
    ),
    "chip.cpp:1:1: error: something else": "another compiler (CXX=clang++)",
}


@pytest.mark.parametrize("complaint", CURES)
def test_a_failure_with_a_known_cause_names_its_cure(tmp_path: Path, complaint: str) -> None:
    log = tmp_path / "log"
    log.write_text(f"[1/2] c++ -c chip.cpp\n{complaint}\nninja: build stopped: subcommand failed.\n")

    message = str(northbridge_cpu_sim.build.compile.failure(log))

    assert message == f"compiling the simulated chip failed: {complaint}. Fix: {CURES[complaint]}; see {log}"


def test_a_chip_that_compiles_and_does_not_load_is_never_kept(tmp_path: Path) -> None:
    place = place_in(tmp_path, "extern int missing(); int answer() { return missing(); }\n")

    with pytest.raises(BuildError, match=r"failed: ImportError: .*(undefined symbol|PyInit_)"):
        locate(place.settings, place.recipe)

    assert not list(place.cache.glob("*.so"))


def test_a_disk_that_is_nearly_full_is_refused_at_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 3 * 2**20
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 7, free))

    with pytest.raises(BuildError) as caught:
        locate(place.settings, place.recipe)

    assert f"needs 128 MiB in {place.cache}, found 3 MiB. Fix: make room" in str(caught.value)
    assert "NORTHBRIDGE_CPU_SIM_CACHE" in str(caught.value)


def test_a_folder_that_cannot_be_written_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**where: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(BuildError, match=f"cache {place.cache}: No space left on device. Fix: make it writable, or"):
        locate(place.settings, place.recipe)


def test_a_ninja_package_without_its_program_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ninja, "BIN_DIR", "")

    with pytest.raises(BuildError, match="pip install --force-reinstall ninja"):
        locate(place.settings, place.recipe)


def test_on_a_terminal_the_reason_comes_with_a_spinner(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stderr:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setattr(sys, "stderr", stderr)
        with announced():
            pass
        shown = b""
        while b"\x1b[?25h" not in shown:  # shows the cursor again: the last thing that a spinner writes
            shown += os.read(screen, 65536)
    os.close(screen)
    text = shown.decode()

    assert REASON in text
    assert any("\u2800" <= character <= "\u28ff" for character in text)
