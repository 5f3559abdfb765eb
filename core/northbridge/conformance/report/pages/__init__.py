"""Pages and files made of a :class:`~northbridge.conformance.report.report.Report`.

``html`` is the page, of one report or of several side by side; ``markdown`` the same for a README or an issue;
``junit`` what CI systems read; ``torch_exclusions`` the words of torch's own tests. ``folder`` writes all of them.
"""

from northbridge.conformance.report.pages.folder import write_all as write_all
