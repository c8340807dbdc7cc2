"""Networks give scores of the right shape, for any size, with either head."""

from __future__ import annotations

import pytest
import torch

from reprior.exceptions import OptionError
from reprior_lab.synthia.networks import CosineHead, build_network, finer


@pytest.mark.parametrize("size", [(32, 48), (33, 47), (8, 8)])
@pytest.mark.parametrize("head", ["linear", "cosine"])
def test_scores_come_at_half_the_resolution_rounded_up(size, head):
    network = build_network("tiny", 5, 1, head=head).eval()
    with torch.inference_mode():
        found = network(torch.randn(2, 1, *size))
    assert found.shape == (2, 5, -(-size[0] // 2), -(-size[1] // 2))
    assert network.stride == 2
    if head == "cosine":
        assert found.abs().max() <= 1 + 1e-6


def test_what_is_one_pixel_wide_is_seen_wherever_it_is():
    """Scores are of every second pixel, but no pixel goes by unseen."""
    torch.manual_seed(0)
    network = build_network("tiny", 5, 3).eval()
    image = torch.randn(1, 3, 16, 16, requires_grad=True)
    network(image).square().sum().backward()
    assert (image.grad.abs().amin(dim=(0, 2, 3)) > 0).all()


def test_finer_puts_every_second_pixel_back_where_it_was():
    full = torch.randn(2, 3, 9, 12)
    coarse = full[..., ::2, ::2]
    found = finer(coarse, (9, 12))
    assert found.shape == full.shape
    torch.testing.assert_close(found[..., ::2, ::2], coarse)
    ramp = torch.arange(12.0).expand(1, 1, 9, 12)
    torch.testing.assert_close(finer(ramp[..., ::2, ::2], (9, 12))[..., :11], ramp[..., :11])


def test_a_point_in_memory_order_of_channels_last():
    network = build_network("tiny", 4).to(memory_format=torch.channels_last).eval()
    x = torch.randn(2, 3, 16, 24)
    with torch.inference_mode():
        torch.testing.assert_close(
            network(x), network(x.contiguous(memory_format=torch.channels_last))
        )


def test_gradients_reach_every_weight():
    network = build_network("tiny", 4)
    network(torch.randn(2, 3, 24, 32)).square().sum().backward()
    assert all(weights.grad is not None for weights in network.parameters())


def test_the_cosine_head_is_a_cosine():
    head = CosineHead(6, 3)
    x = torch.randn(2, 6, 4, 5)
    expected = torch.cosine_similarity(x[:, None], head.layer.weight[None, :, :, None, None], dim=2)
    torch.testing.assert_close(head(x), expected)


def test_unknown_names():
    with pytest.raises(OptionError, match="`model` must be one of 'small', 'tiny' or"):
        build_network("unet", 3)
    with pytest.raises(OptionError, match="`head` must be one of"):
        build_network("tiny", 3, head="softmax")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("head", ["linear", "cosine"])
def test_deeplab_takes_any_size(head):
    network = build_network("deeplabv3plus-resnet18", 4, 1, head=head).eval()
    with torch.inference_mode():
        found = network(torch.randn(1, 1, 70, 90))
    assert found.shape == (1, 4, 70, 90)
    assert network.stride == 1
    if head == "cosine":
        assert found.abs().max() <= 1 + 1e-5


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_unknown_encoders():
    with pytest.raises(OptionError, match=r"`encoder` must be one of .*'resnet18'"):
        build_network("deeplabv3plus-resnet17", 4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("pretrained, weights", [(False, None), (True, "imagenet")])
def test_weights_are_downloaded_only_when_asked_for(monkeypatch, pretrained, weights):
    import segmentation_models_pytorch as smp

    given = {}
    plain = smp.DeepLabV3Plus

    def building(encoder, **options):
        given.update(options)
        return plain(encoder, **(options | {"encoder_weights": None}))

    monkeypatch.setattr(smp, "DeepLabV3Plus", building)
    build_network("deeplabv3plus-resnet18", 4, pretrained=pretrained)
    assert given["encoder_weights"] == weights
