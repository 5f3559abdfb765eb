"""`make gpu` without a GPU: which wheels it gets; all but the device runs, on a stand-in."""

from __future__ import annotations

import io
import json
import os
import re
import time
from pathlib import Path

import pytest
from tests.gpu import prepare, run
from tests.gpu.run import Part, judge_code, run_parts
from tests.scripts import run_script

Captured = pytest.CaptureFixture[str]
_NO_GPU = {"torch": "2.11.0+cu130", "CUDA": "13.0", "card": None}


@pytest.mark.parametrize(
    ("facts", "code", "words"),
    [
        ("import time; time.sleep(60)", 2, "torch did not count its GPUs within 2 s"),
        ("import torch_of_nowhere", 2, "cannot import torch: ModuleNotFoundError: No module named 'torch_of_nowhere'"),
        (f"print({json.dumps(_NO_GPU)!r})", 3, "torch 2.11.0+cu130 finds no GPU here: nothing ran"),
        (f"print({json.dumps({**_NO_GPU, 'CUDA': None})!r})", 3, "torch 2.11.0+cu130 was built without CUDA: nothing"),
        (f"print({json.dumps({**_NO_GPU, 'card': 'H200'})!r})", 2, "{0} has no wheels. Fix: make gpu-wheels where"),
    ],
)
def test_what_is_missing_is_one_line(
    facts: str, code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(run, "_FACTS", facts)
    monkeypatch.setattr(run, "TORCH_S", 2.0 if "time" in facts else 60.0)

    assert run.main(["--wheels", str(tmp_path), "--out", str(tmp_path / "out")]) == code

    said = capsys.readouterr().err
    assert said.startswith("make gpu: ")
    assert words.format(tmp_path) in said
    assert " Fix: " in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_part_over_budget_ends_and_the_next_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "GRACE_S", 0.5)
    monkeypatch.setattr(run, "LEAST_S", 0.1)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: print('heard', flush=True)); time.sleep(60)"
    programs = {"deaf": f"print('began', flush=True); {deaf}", "fails": "exit(3)", "passes": "print(7)"}
    parts = [Part(name, ("-c", code), 2.0, judge_code) for name, code in programs.items()]

    results = list(run_parts(parts, time.monotonic() + 60.0, tmp_path, os.environ, io.StringIO()))
    (late,) = run_parts(parts[2:], time.monotonic() + 0.5, tmp_path, os.environ, io.StringIO())

    assert [each.verdict for each in results] == ["over budget", "failed", "passed"]
    assert results[0].found == "ended after 2 s: began; heard"
    assert results[0].seconds < 10
    assert (late.verdict, late.found) == ("not run", "the parts before it used its time")


@pytest.mark.parametrize(
    ("verdicts", "granted", "found"),
    [
        (["PASS", "NOT RUN"], 3, (True, "C2: 1 PASS, 1 NOT RUN")),
        (["PASS", "UNKNOWN"], 2, (False, "C1: 1 PASS, 1 UNKNOWN")),
        (["PASS", "PASS", "FAIL"], 3, (False, "C2: 2 PASS, 1 FAIL")),
    ],
)
def test_report_decides_on_the_conformance(
    verdicts: list[str], granted: int, found: tuple[bool, str], tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    levels = [{"name": f"C{number}", "granted": number < granted} for number in range(4)]
    report.write_text(json.dumps({"levels": levels, "tests": [{"verdict": verdict} for verdict in verdicts]}))

    assert run.judge_conformance(1, "", report) == found


def test_rehearsal_runs_all_but_the_device(tmp_path: Path) -> None:
    """From the wheels of this repository to the summary; what else the machine gets, this Python has."""
    wheels, out = tmp_path / "wheels", tmp_path / "out"
    wheels.mkdir()
    prepare.build(wheels)

    part = ("--level=C1", "--only=PluginMetadata/", "--only=Views/test_a_view_outlives")
    asked = (f"--wheels={wheels}", f"--out={out}", "--stand-in=cpu_sim", *part)
    ran = run_script(Path(run.__file__), *asked, folder=tmp_path)

    assert ran.status == 0, ran.said
    assert sorted(file.relative_to(out).as_posix() for file in out.rglob("*") if file.is_file()) == [
        "log.txt",
        "report/badge.svg",
        "report/index.html",
        "report/report.json",
        "report/report.md",
        "summary.md",
    ]
    summary = (out / "summary.md").read_text()
    parts = ["demo", "FSDP2 on one rank", "step time", "conformance up to C1"]
    assert re.findall(r"^\| (.+?) \| passed \|", summary, flags=re.M) == parts
    assert "card no GPU: cpu_sim stands in for it" in summary
    assert summary in ran.said
    log = (out / "log.txt").read_text()
    assert "28 of 28 parameters are shards" in log
    assert re.search(r"trained on cpu_sim:0; loss [\d.]+ to [\d.]+ in 2 steps", log)
    assert re.search(r"read on the CPU: \d+% of the words of new sequences are right", log)
