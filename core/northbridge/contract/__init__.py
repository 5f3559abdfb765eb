"""Contracts: the vendor symbols that a backend relies on, their sources, and their check.

The core refuses to train if a required line of ``contract.toml`` is wrong; ``northbridge doctor`` checks every line.
"""

from __future__ import annotations

from northbridge.contract.check import (
    Finding as Finding,
    broken_defaults as broken_defaults,
    check as check,
    check_line as check_line,
    cure as cure,
    reject_broken as reject_broken,
    version_of as version_of,
)
from northbridge.contract.document import Contract as Contract, Symbol as Symbol, contract_of as contract_of
