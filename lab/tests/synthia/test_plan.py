"""Which networks the tables need, and what may not be asked of them."""

from __future__ import annotations

import pytest

from reprior.exceptions import OptionError
from reprior_lab.paper import paper_rows
from reprior_lab.synthia.settings import LABELS, rgb_networks, rgbd_networks


def test_the_losses_are_those_of_the_paper():
    assert list(LABELS) == [row for row in paper_rows("synthia_rgb") if not row.endswith("-ic")]


def test_networks_have_protocol_seed_and_settings():
    networks = rgb_networks(protocol="paper", seed=3, settings={"steps": 7})
    assert {each.model for each in networks} == {"deeplabv3plus-resnet101"}
    assert {(each.seed, each.steps) for each in networks} == {(3, 7)}
    assert len({each.id for each in networks}) == 5
    rgb, depth = rgbd_networks(protocol="paper", seed=3, settings={"steps": 7})
    assert rgb == networks[0]
    assert depth == rgb.differing(modality="depth")


@pytest.mark.parametrize(
    "key, reason",
    [("loss", "the table fixes"), ("modality", "the table fixes"), ("seed", "is an option of")],
)
def test_what_the_table_says_is_refused(key, reason):
    with pytest.raises(OptionError, match=f"Got '{key}', which {reason}"):
        rgb_networks(settings={key: 1})
