"""Third parties' real devices, their plugins in ``examples``, and an environment for each in ``.real``."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.compat.__main__ import EnvironmentRefusedError, Other, prepare as prepare_torch
from tests.real.faults import read_toml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".real"
ASKED = "REAL_DEVICES"
"""The variable in which ``make real`` names the devices that it has prepared."""

START_S = 300.0
"""The limit for the start of a server, which imports torch, on a busy machine."""


class NotHereError(Exception):
    """The device is not on this machine; the message says what is missing, and how it comes here."""


@dataclass(frozen=True)
class RealDevice:
    """A device, where its plugin is, and what the plugin's page says of it."""

    name: str
    title: str
    torch: str | None = None
    """The release of torch that it needs, in an environment apart; None for the pinned one."""

    library: str | None = None
    """A shared library without which it is not on a machine."""

    fix: str = ""
    """What brings the library."""

    server: tuple[str, ...] = ()
    """The module and the arguments of the server that computes for it; its port is the last argument."""

    server_variable: str = ""
    """The variable that has the server's address."""

    @property
    def plugin(self) -> Path:
        """The folder of its distribution."""
        return ROOT / "examples" / f"vendor_{self.name}"

    @property
    def is_asked_for(self) -> bool:
        """True if ``make real`` has prepared it."""
        return self.name in os.environ.get(ASKED, "").split()

    @property
    def site(self) -> Path:
        """The folder where its software and plugin are installed, which no other test sees."""
        return FOLDER / self.name

    @property
    def python(self) -> Path:
        """The Python that trains on it."""
        if self.torch is None:
            return Path(sys.executable)
        try:
            return prepare_torch(Other.read("torch", self.torch))
        except EnvironmentRefusedError as error:
            raise NotHereError(f"{self.title} needs torch {self.torch}, and {error}") from error

    @contextmanager
    def running(self) -> Iterator[Mapping[str, str]]:
        """Yield the environment of a process that uses the device; its server, if it has one, runs meanwhile."""
        environ = {**os.environ, "PYTHONPATH": str(self.site)}
        if not self.server:
            yield environ
            return
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = str(found.getsockname()[1])
        log = self.site / f"server-{port}.log"  # a pipe that nobody reads would stop it
        with log.open("w") as said:
            served = subprocess.Popen([str(self.python), "-m", *self.server, port], env=environ, stderr=said)
        try:
            until = time.monotonic() + START_S
            while port not in log.read_text():  # it says its address when it listens
                if served.poll() is not None or time.monotonic() > until:
                    said_last = log.read_text()[-500:]
                    raise NotHereError(f"the server of {self.title} does not listen. It says: {said_last!r}")
                time.sleep(0.1)
            yield {**environ, self.server_variable: f"127.0.0.1:{port}"}
        finally:
            served.kill()
            served.wait()


REAL = (
    RealDevice("vulkan", "Vulkan", library="libvulkan.so.1", fix="apt install mesa-vulkan-drivers"),
    RealDevice(
        "rgpu",
        "rgpu",
        torch="2.14.1",
        server=("rgpu.server", "--device", "cpu", "--port"),
        server_variable="RGPU_OPSERVER",
    ),
)


def prepare(device: RealDevice) -> None:
    """Install the software and the plugin of ``device`` into its folder. Raises :class:`NotHereError`."""
    if device.library is not None and not _is_here(device.library):
        raise NotHereError(f"{device.title} is not here: {device.library} was not found. Fix: {device.fix}")
    done, description = device.site / ".ready", (device.plugin / "pyproject.toml").read_text()
    wanted = description + (device.plugin / f"northbridge_{device.name}.py").read_text()
    if done.exists() and done.read_text() == wanted:
        return
    shutil.rmtree(device.site, ignore_errors=True)
    pip = [str(device.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    pip += ["--no-build-isolation", "--target", str(device.site)]
    pip += [*read_toml(device.plugin / "pyproject.toml")["project"]["dependencies"], str(device.plugin)]
    if subprocess.run(pip, check=False).returncode:
        raise NotHereError(f"pip could not install the software of {device.title}: it says why above")
    done.write_text(wanted)


def _is_here(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
