"""The protocols have the published numbers."""

from __future__ import annotations

import pytest

from reprior.exceptions import OptionError
from reprior_lab import RunConfig
from reprior_lab.cifar import select_cells
from reprior_lab.config import METHODS, PROTOCOLS, protocol_defaults
from reprior_lab.departures import DEPARTURES
from reprior_lab.inaturalist import network_cells
from reprior_lab.inaturalist_results import ROWS
from reprior_lab.training.schedules import learning_rate


def test_the_paper_s_recipe():
    made = RunConfig.resolve("paper", data="cifar10", imbalance="exp", schedule="drw")
    assert (made.model, made.epochs, made.batch_size) == ("resnet32", 200, 128)
    assert (made.lr, made.momentum, made.weight_decay) == (0.1, 0.9, 2e-4)
    assert (made.deferred_epoch, made.beta, made.gamma) == (160, 0.9999, 1.0)
    assert (made.max_margin, made.scale) == (0.5, 30.0)


#: Of every cell of the paper's Table 2: those settings that LDAM-DRW and BBN publish.
PUBLISHED = {
    "model": "resnet32",
    "epochs": 200,
    "batch_size": 128,
    "lr": 0.1,
    "momentum": 0.9,
    "weight_decay": 2e-4,
    "lr_schedule": "steps",
    "warmup": 5 / 200,
    "decays": (0.01, 0.0001),
    "defer": 160 / 200,
    "beta": 0.9999,
    "gamma": 1.0,
    "max_margin": 0.5,
    "scale": 30.0,
    "precision": "32-true",
    "accumulate": 1,
    "focal_reduction": "plain_mean",
    "sampler": "plain",
}
LDAM_DRW = {"nesterov": False, "milestones": (160 / 200, 180 / 200)}
BBN = {"nesterov": True, "milestones": (120 / 200, 160 / 200)}
CIFAR_ROWS = {
    "ce": ("ce", "plain", LDAM_DRW),
    "focal": ("focal", "plain", LDAM_DRW),
    "ldam": ("ldam", "plain", LDAM_DRW),
    "cb_ce": ("cb_ce", "plain", LDAM_DRW),
    "cb_focal": ("cb_focal", "plain", LDAM_DRW),
    "ce-drw": ("ce", "drw", LDAM_DRW),
    "focal-drw": ("focal", "drw", LDAM_DRW),
    "ldam-drw": ("ldam", "drw", LDAM_DRW),
    "bbn": ("ce", "bbn", BBN),
    "logit_adjusted": ("logit_adjusted", "plain", LDAM_DRW),
}

#: Of iNaturalist: class-balanced loss's ResNet-50, and BBN's.
INATURALIST = {
    "momentum": 0.9,
    "nesterov": True,
    "weight_decay": 1e-4,
    "lr_schedule": "steps",
    "defer": 0.8,
    "beta": 0.9999,
    "gamma": 1.0,
    "max_margin": 0.5,
    "scale": 30.0,
    "precision": "32-true",
    "accumulate": 1,
    "focal_reduction": "plain_mean",
    "sampler": "plain",
}
CLASS_BALANCED = {
    "epochs": 90,
    "batch_size": 256,
    "lr": 0.1,
    "warmup": 5 / 90,
    "milestones": (30 / 90, 60 / 90, 80 / 90),
    "decays": (0.1, 0.01, 0.001),
}
BBN_180 = {
    "epochs": 180,
    "batch_size": 128,
    "lr": 0.05,
    "warmup": 0.0,
    "milestones": (120 / 180, 160 / 180),
    "decays": (0.1, 0.01),
}


def settings_of(config, keys):
    return {key: getattr(config, key) for key in keys}


def test_every_cell_of_cifar_is_as_published():
    cells = select_cells(["*"], protocol="paper", settings={"seed": 0})
    assert {cell.method for cell in cells} == set(CIFAR_ROWS) == set(METHODS)
    assert len(cells) == 8 * len(CIFAR_ROWS)
    for cell in cells:
        loss, schedule, own = CIFAR_ROWS[cell.method]
        wanted = PUBLISHED | own | {"loss": loss, "schedule": schedule}
        assert settings_of(cell.config, wanted) == wanted, cell.name


@pytest.mark.parametrize("model, side", [("resnet50", None), ("inception_v3", 299)])
def test_every_cell_of_inaturalist_is_as_listed(model, side):
    cells = network_cells(ROWS, [model])
    assert {cell.row for cell in cells} == set(ROWS)
    for cell in cells:
        own = BBN_180 if cell.row == "bbn" else CLASS_BALANCED
        wanted = INATURALIST | own | {"model": model, "image_size": side}
        assert settings_of(cell.config, wanted) == wanted, cell.row


def test_the_steps_of_inaturalist_are_at_the_published_epochs():
    plain, bbn = network_cells(["ce", "bbn"], ["resnet50"])
    rates = [learning_rate(plain.config, epoch, 0, 1) for epoch in (0, 4, 5, 29, 30, 60, 80, 89)]
    assert rates == pytest.approx([0.02, 0.1, 0.1, 0.1, 0.01, 0.001, 1e-4, 1e-4])
    rates = [learning_rate(bbn.config, epoch, 0, 1) for epoch in (0, 119, 120, 159, 160, 179)]
    assert rates == pytest.approx([0.05, 0.05, 0.005, 0.005, 5e-4, 5e-4])


@pytest.mark.parametrize("experiment", ["cifar", "inaturalist"])
def test_departures_are_sentences(experiment):
    assert DEPARTURES[experiment]
    assert len({each.setting for each in DEPARTURES[experiment]}) == len(DEPARTURES[experiment])
    for each in DEPARTURES[experiment]:
        assert all((each.setting, each.theirs, each.ours))
        assert each.reason.endswith(".")


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
