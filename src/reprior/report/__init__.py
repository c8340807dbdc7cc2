"""The report: one HTML page, and the same figures for scripts.

``page``      :func:`write_report`, one self-contained file that opens offline
``plots``     the figures as matplotlib Displays

The page is made in steps: ``measure`` reads the scores once, ``thinning`` makes the switches
fit, ``payload`` lays the numbers out as JSON, ``headline`` puts them into sentences.
"""

from reprior.report.page import write_report

__all__ = ["write_report"]
