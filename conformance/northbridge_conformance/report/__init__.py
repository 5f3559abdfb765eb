"""From a run of the suite to a report: ``suite_run`` connects the parts, and ``command`` shows and writes the result.

``runner.supervisor`` starts the pytest that runs the tests, in which ``runner.recorder`` writes the event log.
``verdict`` and ``grading`` judge; ``report`` is the result, and ``overview`` and ``failure`` have its words. ``html``
and ``markdown`` make pages of it, ``badge`` a picture, and ``comparison`` compares several.
"""
