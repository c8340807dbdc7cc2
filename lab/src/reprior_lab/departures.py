"""Where the protocol ``paper`` departs from the recipes that the compared methods published.

The public recipes are the code of LDAM-DRW (Cao et al., NeurIPS 2019), of BBN (Zhou et al., CVPR
2020), of the class-balanced loss (Cui et al., CVPR 2019) and, for SYNTHIA, of UNO-IC, the paper's
authors' own (github.com/GT-RIPL/UNO-IC). Each value names its source. "Source unknown" means that
none of them determines the value.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEPARTURES", "Departure"]


@dataclass(frozen=True)
class Departure:
    """One difference from a public recipe.

    Parameters
    ----------
    setting : str
        The name of the setting.
    theirs, ours : str
        The value of the public recipe, and that of the protocol.
    reason : str
        The reason, in a sentence.
    """

    setting: str
    theirs: str
    ours: str
    reason: str


_LAST_EPOCH = Departure(
    "network that is judged",
    "LDAM-DRW, BBN: the epoch with the best test accuracy",
    "the last epoch",
    "An epoch chosen on the test images flatters every row.",
)
_BBN_HEAD = Departure(
    "first weights of BBN's linear layer",
    "BBN: PyTorch's default, uniform",
    "Kaiming normal",
    "All rows start from the same kind of layer.",
)

#: By experiment: "cifar", "inaturalist" and "synthia". Everything else follows the public recipes.
DEPARTURES: dict[str, tuple[Departure, ...]] = {
    "cifar": (
        Departure(
            "p of the focal loss with class weights",
            "LDAM-DRW: exp of minus the weighted cross-entropy",
            "exp of minus the unweighted cross-entropy",
            "p is the probability of the class, which its weight does not change. In cb_focal, and "
            "in the last epochs of focal-drw.",
        ),
        Departure(
            "class-balanced focal loss",
            "class-balanced loss: a sigmoid for each class",
            "softmax, as in LDAM-DRW",
            "The correction is one of softmax posteriors.",
        ),
        Departure(
            "images that an imbalanced class keeps",
            "LDAM-DRW: the first after a shuffle with seed 0",
            "the first of the files",
            "The choice depends on no random generator. The counts are the same.",
        ),
        Departure(
            "first weights of LDAM's cosine layer",
            "LDAM-DRW: uniform in a cube, then normalised",
            "normal, then normalised",
            "No direction is preferred.",
        ),
        Departure(
            "warm-up of BBN",
            "BBN: in 5 epochs from a third of the rate, in a straight line",
            "in 5 epochs from a fifth of the rate, as in LDAM-DRW",
            "One schedule for all rows.",
        ),
        _BBN_HEAD,
        Departure(
            "BBN with a step imbalance",
            "source unknown: BBN has settings for exponential imbalance alone",
            "the settings of the exponential one",
            "The paper's table has it.",
        ),
        Departure(
            "row logit_adjusted",
            "source unknown: none of the compared methods' code has it",
            "the settings of cross-entropy",
            "A comparison that the paper does not have.",
        ),
        _LAST_EPOCH,
    ),
    "inaturalist": (
        Departure(
            "recipe of ce, focal, ldam and their DRW",
            "source unknown: LDAM-DRW published no code for iNaturalist",
            "epochs, warm-up, steps, momentum and weight decay of the class-balanced loss's "
            "ResNet-50",
            "It is the public code for these images that trains without a second branch.",
        ),
        Departure(
            "learning rate and batch size",
            "class-balanced loss: 1.6 for batches of 1024, with sigmoids",
            "0.1 for batches of 256",
            "0.1 for 256 images is that code's default, which its sigmoid losses raise.",
        ),
        Departure(
            "losses",
            "class-balanced loss: a sigmoid for each class, γ = 0.5",
            "softmax, γ = 1, with p and mean as for CIFAR",
            "The correction is one of softmax posteriors; γ is that of LDAM-DRW.",
        ),
        Departure(
            "β of the effective number",
            "class-balanced loss: 0.999",
            "0.9999",
            "The value of LDAM-DRW, as for CIFAR.",
        ),
        Departure(
            "start of DRW, margin and scale of LDAM",
            "source unknown",
            "after 0.8 of the epochs, 0.5 and 30",
            "The values of LDAM-DRW for CIFAR.",
        ),
        Departure(
            "warm-up",
            "class-balanced loss: from 0, by the step",
            "from a fifth of the rate, by the epoch",
            "As LDAM-DRW for CIFAR. BBN has none, here and there.",
        ),
        Departure(
            "weight decay",
            "class-balanced loss: not of batch normalisation and biases",
            "of all parameters",
            "As in LDAM-DRW and BBN.",
        ),
        Departure(
            "precision",
            "class-balanced loss: bfloat16; BBN: 32 bits",
            "32 bits",
            "Pass --precision bf16-mixed, or 16-mixed, where the batch does not fit.",
        ),
        Departure(
            "mean and deviation of the pixels",
            "class-balanced loss: those of iNaturalist",
            "those of ImageNet, as in BBN",
            "One normalisation for all rows.",
        ),
        Departure(
            "networks",
            "class-balanced loss: ResNet-50 of TensorFlow; BBN: its own",
            "resnet50 and inception_v3 of timm, from random weights",
            "Maintained code of the same layers.",
        ),
        Departure(
            "Inception v3",
            "source unknown",
            "the settings of ResNet-50 at 299 pixels, without the auxiliary classifier",
            "The paper's table has it.",
        ),
        Departure(
            "epochs of ResNet-50",
            "the paper: 90 or 200; class-balanced loss: 90",
            "90; of BBN 180",
            "Pass --set epochs=200 for the other: steps keep their shares of the epochs.",
        ),
        Departure(
            "α of BBN",
            "BBN: 1 − (t/200)² over 180 epochs",
            "1 − (t/180)²",
            "The formula of its paper: the second branch has the last word.",
        ),
        _BBN_HEAD,
        _LAST_EPOCH,
    ),
    "synthia": (
        Departure(
            "steps",
            "the paper: 500,000; UNO-IC: 100,000 or 250,000",
            "500,000",
            "The configurations of UNO-IC are of a ResNet-18 on DAWN alone, not of the tables.",
        ),
        Departure(
            "frames held out",
            "UNO-IC: 30 % of the frames of each camera, shuffled one by one",
            "two stretches of the drive, the same of all cameras and conditions",
            "Neighbouring frames are all but equal, so single ones leak into the training part.",
        ),
        Departure(
            "frames of unseen conditions",
            "UNO-IC: a fifth, shuffled",
            "every fifth",
            "No random numbers of theirs are needed for a share of the same size.",
        ),
        Departure(
            "classes",
            "UNO-IC: 14, void is learnt and judged as a class of its own",
            "13, void is ignored",
            "Void is what has no label; a mean over classes should not count it.",
        ),
        Departure(
            "starting weights",
            "source unknown: UNO-IC can load weights of ImageNet, and does not by default",
            "random",
            "Nothing is downloaded unasked; --set pretrained=true starts from ImageNet.",
        ),
        Departure(
            "network",
            "UNO-IC: plain convolutions in ASPP and the decoder; dilations 2, 4 and 8 in the last "
            "stage",
            "those of segmentation-models-pytorch: separable ones; dilation 2",
            "A maintained DeepLab v3+ of the same size and output stride is taken as it is.",
        ),
        Departure(
            "last layer of LDAM",
            "UNO-IC: linear, as of all losses",
            "cosine, scaled by 30",
            "The margins of LDAM are of cosines, as its authors' own code has them.",
        ),
        Departure(
            "weights that are judged",
            "UNO-IC: the best of several on validation frames",
            "the last",
            "The validation frames tune the correction, and should not choose the network too.",
        ),
        Departure(
            "pixels judged",
            "UNO-IC: all",
            "every second each way",
            "Scores of all pixels take four times the room, and neighbours say the same.",
        ),
        Departure(
            "depth in colours",
            "UNO-IC: coloured, then scaled by interpolation",
            "scaled by the nearest pixel, then coloured",
            "A colour between two of JET's stands for a depth that neither pixel has.",
        ),
        Departure(
            "frames",
            "UNO-IC: SYNTHIA-Sequences, published weather",
            "where only SYNTHIA-SF is given, that, by its left camera, under simulated weather",
            "SYNTHIA-SF was recorded in clear weather, and has no other views.",
        ),
    ),
}
