"""What the networks of the tests are trained with: they learn little, in a second each."""

from __future__ import annotations

SETTINGS = {"model": "tiny", "steps": 6, "crop": [32, 48]}
