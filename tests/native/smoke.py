"""Whether a fresh installation works, with its compiled kernels: `python tests/native/smoke.py`.

Needs neither pytest nor a file of the project: wheels are tried with it.
"""

from __future__ import annotations

import numpy as np

import reprior as rp
from reprior.core import kernels


def main() -> None:
    """Fit and predict with every instruction set of this processor."""
    assert kernels.native is not None, "reprior was installed without its compiled kernels"
    rng = np.random.default_rng(0)
    labels = rng.choice(3, 500, p=[0.8, 0.15, 0.05])
    scores = rng.standard_normal((500, 3)) + 2 * np.eye(3)[labels] + np.log([0.8, 0.15, 0.05])
    for level in kernels.native.levels():
        kernels.native.set_level(level)
        calibrator = rp.PosteriorCalibrator([0.8, 0.15, 0.05], metric="balanced_accuracy")
        calibrator.fit(scores, labels)
        after = np.mean([np.mean(calibrator.predict(scores)[labels == k] == k) for k in range(3)])
        before = np.mean([np.mean(scores[labels == k].argmax(1) == k) for k in range(3)])
        assert after > before, (level, before, after)
    rp.show_versions()


if __name__ == "__main__":
    main()
