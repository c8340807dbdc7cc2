"""Names of networks: the same as there are, and a short answer to others."""

from __future__ import annotations

import pytest

from reprior.exceptions import OptionError
from reprior_lab.models.registry import OWN, check_model


def test_our_own_names_are_those_that_can_be_built():
    from reprior_lab.models.resnet import RESNETS

    assert set(OWN) == {"toy", *RESNETS}


def test_names_of_segmentation_networks():
    from reprior_lab.synthia.networks import SMALL
    from reprior_lab.synthia.settings import SMALL_MODELS

    assert set(SMALL_MODELS) == set(SMALL)


def test_the_nearest_few_are_suggested():
    check_model("resnet50")
    with pytest.raises(OptionError, match=r"Did you mean .*'resnet5\d'") as caught:
        check_model("resnet5o")
    assert len(str(caught.value)) < 300
