"""Where the passes run: chunk by chunk from files, or as a loader hands scores out.

``chunked``      tune a calibrator on chunks that can be read again
``online``       tune one on scores that come by once
``evaluation``   judge one on chunks, before and after
``fingerprint``  a digest of labelled scores
``stream``       what they share: chunks, read and checked
"""

from reprior.engines.chunked import fit
from reprior.engines.evaluation import Evaluation, evaluate
from reprior.engines.fingerprint import digest
from reprior.engines.online import OnlineFit

__all__ = ["Evaluation", "OnlineFit", "digest", "evaluate", "fit"]
