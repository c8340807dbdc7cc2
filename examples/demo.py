"""The table of the README: long-tailed digits before and after, from Python.

``reprior demo`` does the same job with files and commands. Run ``python examples/demo.py --seed 1``
for another split.
"""

from __future__ import annotations

import argparse

from reprior.cli.demo import compare, long_tailed_digits

__all__ = ["long_tailed_digits", "main"]


def main(seed: int = 0) -> dict[str, dict[str, float]]:
    """Train, tune, judge and print; return the table."""
    columns = compare(seed)
    print(f"{'on the test images':<43}" + "".join(f"{name:>10}" for name in columns))
    for row in columns["before"]:
        print(f"{row:<43}" + "".join(f"{values[row]:>10.3f}" for values in columns.values()))
    return columns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="seed of the split (default 0)")
    main(parser.parse_args().seed)
