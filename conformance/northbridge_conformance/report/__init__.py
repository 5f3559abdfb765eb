"""From a run of the suite to a report: ``suite_run`` connects the parts.

``runner.supervisor`` starts the pytest that runs the tests, in which ``runner.recorder`` writes the event log.
``verdict`` and ``grading`` judge; ``report`` is the result.
"""
