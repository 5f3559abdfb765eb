"""Contracts: the vendor symbols that a backend relies on, their sources, and their check.

The core refuses to train if a required line of ``contract.toml`` is wrong; ``northbridge doctor`` checks every line.
"""

from __future__ import annotations

from northbridge.contract.check import Finding, broken_defaults, check, check_line, cure, reject_broken, version_of
from northbridge.contract.document import Contract, Symbol, contract_of

__all__ = [
    "Contract",
    "Finding",
    "Symbol",
    "broken_defaults",
    "check",
    "check_line",
    "contract_of",
    "cure",
    "reject_broken",
    "version_of",
]
