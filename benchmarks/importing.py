"""Time that `import reprior`, and the first use of its lazy parts, add to `import numpy`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.timing import Row

#: Seconds that importing reprior may take on top of NumPy.
ALLOWED = 0.2
STATEMENTS = ("import reprior", "from reprior import PosteriorCalibrator", "from reprior import *")
_CODE = "import time, numpy; t = time.perf_counter(); {}; print(time.perf_counter() - t)"


def rows() -> Iterator[Row]:
    # An installed package has its bytecode in files: the first run writes them, and does not count.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    for statement in STATEMENTS:
        command = [sys.executable, "-c", _CODE.format(statement)]
        runs = [
            float(subprocess.run(command, capture_output=True, check=True, env=environment).stdout)
            for _ in range(12)
        ]
        shares = np.array(runs[1:]) / ALLOWED
        low, high = np.quantile(shares, [0.05, 0.95])
        median = float(np.median(shares))
        yield Row(statement, "0.2 s on top of numpy", median, float(low), float(high), 1.0)
