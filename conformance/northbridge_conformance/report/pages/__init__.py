"""Pages and files made of a :class:`~northbridge_conformance.report.report.Report`.

``html`` makes a page of one report or of several side by side; ``markdown`` makes one for a README or an issue.
``junit`` is for CI systems, ``torch_exclusions`` for torch's own tests. ``folder`` writes all of them.
"""

from northbridge_conformance.report.pages.folder import write_all as write_all
