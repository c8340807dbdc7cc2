"""Errors and warnings carry their parts, and warnings point at the user's line."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reprior as rp
from reprior import InfeasibleError
from reprior._warnings import collect_warnings, warn
from reprior.exceptions import Argument, Element, Setting, Words, printable, quoted


class ShoutingFace:
    """Renders references in capital letters."""

    def argument(self, argument):
        return argument.name.upper()

    def setting(self, setting):
        return f"--{setting.name} {setting.value}"

    def element(self, element):
        return f"{element.name} of {element.index}: {element.value}"

    def words(self, words):
        return words.command_line


def error_of_a_prior():
    return rp.PriorError(
        argument="source_prior",
        rule="must be positive for every class",
        got=Element("source_prior", (3,), 0.0),
        remedy=["Pass ", Setting("smoothing", 1), Words(" to the function", ""), "."],
    )


def test_an_error_renders_its_parts_for_each_face():
    error = error_of_a_prior()
    assert str(error) == (
        "`source_prior` must be positive for every class. Got source_prior[3]=0. "
        "Pass smoothing=1 to the function."
    )
    assert error.render(ShoutingFace()) == (
        "SOURCE_PRIOR must be positive for every class. Got source_prior of (3,): 0.0. "
        "Pass --smoothing 1."
    )


def test_a_plain_sentence_is_an_error_too():
    assert str(rp.RepriorError("It is not.")) == "It is not."
    assert repr(rp.RepriorError("It is not.")) == "RepriorError('It is not.')"
    assert str(rp.RepriorError("It is not.", remedy="Try again.")) == "It is not. Try again."


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_are_copied_and_pickled_with_their_parts(again):
    error = again(error_of_a_prior())
    assert type(error) is rp.PriorError
    assert error.got == Element("source_prior", (3,), 0.0)
    assert str(error) == str(error_of_a_prior())
    found = again(InfeasibleError("Nothing.", strength=0.5, shortfall=0.1))
    assert (str(found), found.strength, found.shortfall) == ("Nothing.", 0.5, 0.1)


def test_errors_of_two_families_are_pickled_too():
    for kind in (rp.exceptions.MissingDependencyError, rp.exceptions.NotFittedError):
        found = pickle.loads(pickle.dumps(kind("It is not there.")))
        assert (type(found), str(found)) == (kind, "It is not there.")


def test_mapped_renames_arguments_and_moves_indices():
    def change(part):
        if isinstance(part, Argument):
            return Argument("validation", (1,))
        if isinstance(part, Element):
            return Element(part.name, (part.index[0] + 10,), part.value)
        return part

    error = error_of_a_prior()
    assert str(error.mapped(change)).startswith(
        "`validation[1]` must be positive for every class. Got source_prior[13]=0."
    )
    assert str(error).startswith("`source_prior`")
    whole = rp.RepriorError("It is too long.")
    assert str(whole.mapped(change)) == "It is too long."


def test_an_error_is_followed_by_where_it_was():
    plain = rp.OptionError("Labels must agree.")
    assert str(plain.mapped(lambda part: part)) == "Labels must agree."
    assert str(plain.with_sentence("It is in 'b'.")) == "Labels must agree. It is in 'b'."
    parted = rp.OptionError(argument="cv", rule="must be 2", got="1", remedy="Pass 2.")
    more = parted.with_sentence(["See ", Setting("cv", 2), "."])
    assert str(more) == "`cv` must be 2. Got 1. Pass 2. See cv=2."
    assert str(parted) == "`cv` must be 2. Got 1. Pass 2."


def test_an_error_inside_of_another_is_rendered_for_the_same_face():
    inner = error_of_a_prior()
    outer = rp.RepriorError(["The file cannot be left out. ", inner], remedy="Pass another.")
    assert str(outer) == f"The file cannot be left out. {inner} Pass another."
    assert inner.render(ShoutingFace()) in outer.render(ShoutingFace())
    assert str(outer.with_sentence("It is here.")) == f"{outer} It is here."
    alone = rp.RepriorWarning(inner)
    assert str(alone) == str(inner)
    found = pickle.loads(pickle.dumps(outer))
    assert (type(found.text[1]), str(found)) == (rp.PriorError, str(outer))


def test_arguments_inside_of_an_inner_error_are_renamed_too():
    outer = rp.RepriorError(["First: ", error_of_a_prior()])

    def change(part):
        return Argument("validation") if isinstance(part, Argument) else part

    assert str(outer.mapped(change)).startswith("First: `validation` must be positive")
    assert str(outer).startswith("First: `source_prior` must be positive")


@given(st.text())
def test_other_libraries_errors_are_quoted_on_one_short_line(text):
    words = quoted(OSError(text))
    assert words
    assert words.isprintable()
    assert len(words) <= 300
    assert not words.endswith(".")
    assert quoted(OSError(text), typed=True).startswith("OSError")


def test_a_warning_points_at_the_line_that_called_the_package():
    scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    with pytest.warns(rp.RepriorWarning, match="sums to 1") as caught:
        rp.rebalance(scores, [0.5, 0.5])
    assert caught[0].filename == __file__


def test_executed_code_without_a_name_is_warned_too():
    code = compile("warn('few labels')", "page.md", "exec")
    with pytest.warns(rp.RepriorWarning, match="few labels") as caught:
        exec(code, {"warn": warn})
    assert caught[0].filename == "page.md"


def test_warnings_are_collected_once_each_and_others_are_passed_on():
    collected = []

    def work():
        with collect_warnings(collected):
            warn("few labels")
            warn("few labels")
            warnings.warn("another's", UserWarning, stacklevel=1)

    with pytest.warns(UserWarning, match="another's"):
        work()
    assert [str(each) for each in collected] == ["few labels"]


def test_a_copy_of_a_plain_text_says_the_same():
    error = rp.RepriorError("The file is too new.")
    assert str(error.mapped(lambda part: part)) == "The file is too new."
    more = error.with_sentence(["Pass ", Setting("kind", "probs"), "."])
    assert str(more) == "The file is too new. Pass kind='probs'."
    assert str(more.with_sentence("(In chunk 1.)")) == f"{more} (In chunk 1.)"
    assert str(error) == "The file is too new."


@pytest.mark.parametrize("kind", [rp.RepriorError, rp.RepriorWarning])
def test_text_of_files_cannot_write_to_the_terminal(kind):
    title = "\x1b]0;owned\x07"
    c1 = "\x9b2J\x85"
    text = f"{title}a\nb\r\n\tc{c1}\x7f\u202ed\u2028e"
    everywhere = kind(
        argument=f"x{title}", rule=[f"must be {title}"], got=Element("x", (0,), text), remedy=title
    )
    for message in (kind(text), everywhere):
        for sentence in (str(message), message.render(ShoutingFace())):
            assert sentence.isprintable()
    assert str(kind(text)) == r"\x1b]0;owned\x07a b c\x9b2J \x7f\u202ed e"


@given(st.text())
def test_printable_text_is_what_it_was(text):
    assert printable(text).isprintable()
    if text.isprintable():
        assert printable(text) == text
