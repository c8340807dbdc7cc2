"""The figures of the report for scripts and papers: matplotlib Displays.

They follow scikit-learn's convention: a class method such as ``from_calibrator`` computes and
draws, ``plot`` draws again from what is there, and what was drawn is kept in ``ax_``, ``figure_``
and attributes such as ``line_``. Nothing is shown and no setting of matplotlib is changed.

``strength``     StrengthCurveDisplay: metrics over the strength, the optimum, its interval
``pareto``       ParetoDisplay: what one metric costs the other
``reliability``  ReliabilityDisplay: accuracy by confidence, before and after
``confusion``    ConfusionDisplay: which class is taken for which
``change``       ClassChangeDisplay: every class before and after
``mix``          PriorDisplay: the priors and the mix of the predictions

``AFTER``, ``BEFORE``, ``CHOSEN``, ``FAINT``, ``CYCLE`` are their colours and ``LEGEND`` the look of
their legends, for figures that stand beside them.
"""

from reprior.report.plots.change import ClassChangeDisplay
from reprior.report.plots.confusion import ConfusionDisplay
from reprior.report.plots.drawing import AFTER, BEFORE, CHOSEN, CYCLE, FAINT, LEGEND
from reprior.report.plots.mix import PriorDisplay
from reprior.report.plots.pareto import ParetoDisplay
from reprior.report.plots.reliability import ReliabilityDisplay
from reprior.report.plots.strength import StrengthCurveDisplay

__all__ = [
    "AFTER",
    "BEFORE",
    "CHOSEN",
    "CYCLE",
    "FAINT",
    "LEGEND",
    "ClassChangeDisplay",
    "ConfusionDisplay",
    "ParetoDisplay",
    "PriorDisplay",
    "ReliabilityDisplay",
    "StrengthCurveDisplay",
]
