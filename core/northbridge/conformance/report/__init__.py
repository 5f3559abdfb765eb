"""From a run of the suite to a report: ``proving`` is the way through.

``watching`` starts the pytest that runs the tests, in which ``recorder`` writes the event log; ``verdict`` and
``granting`` judge; ``report`` is what is left.
"""
