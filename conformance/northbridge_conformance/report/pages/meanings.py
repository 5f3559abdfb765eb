"""Explanations of a report's words, for readers who see one for the first time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType

from northbridge.capabilities import Capabilities
from northbridge_conformance.report.report import Finding
from northbridge_conformance.verdict import Verdict

LEVELS: Mapping[str, str] = MappingProxyType(
    {
        "C0": "The plugin installs, is found, and reports missing software or hardware clearly. Nothing has been"
        " computed with it.",
        "C1": "One device computes what the CPU computes: tensors, views, random numbers, memory and gradients. A real"
        " device is within the suite's tolerances for each operation, and a simulated one is bit-exact.",
        "C2": "Lightning trains on one device: every stage, the precisions that are claimed, checkpoints that open on"
        " the CPU too, and resuming to the bit.",
        "C3": "Several devices train together: each collective operation gives the right numbers, and two and four"
        " ranks learn what one process learns from the whole batch.",
        "C4": "It lasts: ranks that are killed, restarts, a thousand steps in steady memory, two jobs side by side,"
        " two nodes.",
    }
)
PART = (
    "Only the tests that were asked for ran, so that no level can be granted or withheld. Run the suite without --only."
)
NO_LEVEL = (
    "On this machine, a test of the first level did not pass or did not run. Rely only on the claims that are proved"
    " below."
)
SIMULATED = (
    "The device is simulated: this computer's own memory and processor stand in for the chip. What is shown is the"
    " software around a chip. Nothing is claimed about a real one, neither its numbers nor its speed nor its memory."
)

VERDICTS: Mapping[Verdict, str] = MappingProxyType(
    {
        Verdict.FAIL: "A required or claimed ability does not work, or a denied one is not refused.",
        Verdict.TIMEOUT: "It took longer than its limit, and was ended.",
        Verdict.UNDERCLAIM: "It works, although the backend says that it cannot do this: the claim is wrong.",
        Verdict.VOID: "Neither passed nor failed: on this device, two right ways to compute differ by more than the"
        " bound, so a comparison shows nothing.",
        Verdict.NOT_RUN: "This machine cannot run the test, because it has too few devices for example, or the test was"
        " not asked for. Nothing is known.",
        Verdict.UNKNOWN: "The backend does not say whether it can do this, so the outcome proves nothing.",
        Verdict.PASS: "It works as claimed; or the backend says that it cannot do this, and refuses it clearly.",
    }
)
"""Explanation of each verdict, in the order in which they are shown: the most urgent first."""

CLAIMS: Mapping[Finding, str] = MappingProxyType(
    {
        "proved": "claimed, and every test of it passed here, up to the level that was asked for: rely on it",
        "refused": "the backend says no, and an attempt ends in a clear error, or a warning: you will be told",
        "false": "what the backend says is wrong: do not rely on it",
        "hidden": "the backend says no, yet it works: the vendor has not promised it",
        "unknown": "the backend does not say, or Northbridge does not drive it yet: try it before you rely on it",
        "not tested": "no test that ran here shows it: nothing is known beyond what the backend says",
    }
)
"""Advice for each kind of finding, in the order in which they are shown."""

CLAIMED: Mapping[str, str] = MappingProxyType(
    {each.name: each.metadata["meaning"] for each in fields(Capabilities) if "meaning" in each.metadata}
)
"""Meaning of each claim for a user."""
