"""Label shift: the class mix of unlabelled scores, and how far an estimate of it can be trusted.

``estimate``       from scores to an estimated target prior, by any method
``predictions``    target and validation scores as log-scores, or as predictions
``recalibration``  the calibration of log-scores that EM needs first
``em``             maximum likelihood by EM, accelerated
``newton``         maximum likelihood by Newton's method, where EM is slow
``moments``        BBSE and RLLS: moments of predictions
``bootstrap``      replicates of an estimate, and intervals
``report``         the report, and warnings
``tracking``       the prior of a stream, and an alarm where it shifts

Everything assumes that classes look the same where a model is used as in training: P(x|y) is
unchanged, and P(y) alone has shifted.
"""
