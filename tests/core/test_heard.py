"""Warnings that are taken down."""

from __future__ import annotations

import warnings

import pytest

from reprior.core.heard import heard
from reprior.exceptions import RepriorWarning


def test_each_sentence_once_and_others_go_their_way():
    said = ["known"]

    def speak():
        with heard(said):
            for sentence in ("new", "known", "new"):
                warnings.warn(sentence, RepriorWarning, stacklevel=1)
            warnings.warn("theirs", UserWarning, stacklevel=1)

    with pytest.warns(UserWarning, match="theirs") as caught:
        speak()
    assert said == ["known", "new"]
    assert [(w.filename, str(w.message)) for w in caught] == [(__file__, "theirs")]
