"""Names of networks: the same as there are, and a short answer to others."""

from __future__ import annotations

import pytest

from reprior.exceptions import MissingDependencyError, OptionError
from reprior.experiments.model_names import OWN, check_model


def test_our_own_names_are_those_that_can_be_built():
    pytest.importorskip("torch", reason="torch is not installed")
    from reprior.experiments.models.resnet import RESNETS

    assert set(OWN) == {"toy", *RESNETS}


def test_names_of_segmentation_networks():
    pytest.importorskip("torch", reason="torch is not installed")
    from reprior.experiments.synthia.networks import SMALL
    from reprior.experiments.synthia.settings import SMALL_MODELS

    assert set(SMALL_MODELS) == set(SMALL)


def test_the_nearest_few_are_suggested():
    pytest.importorskip("timm", reason="timm is not installed")
    check_model("resnet50")
    with pytest.raises(OptionError, match=r"Did you mean .*'resnet5\d'") as caught:
        check_model("resnet5o")
    assert len(str(caught.value)) < 300


def test_without_timm_other_names_are_left_to_whoever_builds_them(monkeypatch):
    def missing(_):
        raise MissingDependencyError("timm is not installed")

    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr("reprior.experiments.models.timm_models.timm_names", missing)
    check_model("anything")
