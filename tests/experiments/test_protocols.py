"""The protocols have the published numbers."""

from __future__ import annotations

import pytest

from reprior.exceptions import OptionError
from reprior.experiments import RunConfig
from reprior.experiments.protocols import PROTOCOLS, protocol_defaults


def test_the_paper_s_recipe():
    made = RunConfig.resolve("paper", data="cifar10", imbalance="exp", schedule="drw")
    assert (made.model, made.epochs, made.batch_size) == ("resnet32", 200, 128)
    assert (made.lr, made.momentum, made.weight_decay) == (0.1, 0.9, 2e-4)
    assert (made.deferred_epoch, made.beta, made.gamma) == (160, 0.9999, 1.0)
    assert (made.max_margin, made.scale) == (0.5, 30.0)


def test_bbn_of_the_paper_has_steps_of_its_own():
    made = RunConfig.resolve("paper", data="cifar10", imbalance="exp", schedule="bbn")
    assert made.milestones == (0.6, 0.8)
    assert made.nesterov


def test_every_protocol_makes_a_configuration_of_all_data():
    for protocol in PROTOCOLS:
        for data in ("cifar10", "digits", "moons", "inaturalist2018"):
            assert RunConfig.resolve(protocol, data=data, root="somewhere").protocol == protocol


def test_the_toy_sets_have_a_network_of_their_own():
    assert protocol_defaults("compact", data="circles", schedule="plain")["model"] == "toy"


def test_protocols_cannot_be_changed_by_accident():
    with pytest.raises(TypeError):
        PROTOCOLS["compact"]["lr"] = 1.0


def test_an_unknown_protocol_is_refused():
    with pytest.raises(OptionError, match="Did you mean 'paper'"):
        RunConfig.resolve("papers", data="digits")


def test_twice_the_images_get_half_the_epochs_in_the_compact_protocol():
    epochs = {
        kind: RunConfig.resolve(data="cifar10", imbalance=kind).epochs for kind in ("exp", "step")
    }
    assert epochs == {"exp": 20, "step": 10}
