"""A checkpoint of lightning-Habana's goes on here, and what is saved here opens anywhere."""

from __future__ import annotations

from tests.backends.simulated.runs.resume import Resume


class TestResume(Resume):
    pass
