"""The page in a real browser: headless Chromium, driven by Playwright."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.support.report_pages import chunked, fitted, make_scores, page_json, unpack

import reprior as rp
from reprior.metrics import expected_calibration_error
from reprior.report import write_report
from reprior.report.payload import SizeLimits

pytestmark = pytest.mark.heavy

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
SECTIONS = ("verdict", "metric-cards", "curves-figure", "optimum-table", "classes", "confusion",
            "tradeoff", "reliability", "priors")  # fmt: skip
FIGURES = ("curves-figure", "classes-figure", "confusion-after", "tradeoff-figure",
           "reliability-after", "ece-figure", "priors-figure")  # fmt: skip
NAMES = np.array(["cat", "<script>window.hacked = 1</script>", "<img src=x onerror=hacked=1>",
                  "dog & fox", "a <b>bold</b> one", "owl"])  # fmt: skip

#: Milliseconds: a busy machine is no failure.
PATIENCE = 180_000

#: Sums over classes in another order than Python's.
ROUNDING = 1e-9


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not Path(CHROMIUM).exists():
        pytest.skip("NO CHROMIUM: the report was not tested in a browser. apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


class Case:
    """A report of two sets, and what is in it."""

    def __init__(self, folder):
        rng = np.random.default_rng(11)
        self.logits, self.labels, self.counts = make_scores(rng, n=500, k=6)
        self.test_logits, self.test_labels, _ = make_scores(rng, n=700, k=6)
        self.calibrator = fitted(
            self.logits, NAMES[self.labels], self.counts, classes=NAMES, temperature="fit"
        )
        self.path = write_report(
            folder / "report.html", self.calibrator, chunked(self.logits, self.labels),
            test=chunked(self.test_logits, self.test_labels), counts=self.counts,
        )  # fmt: skip
        self.profile = self.profile_of(self.test_logits, self.test_labels)
        self.gain = page_json(self.path)["sets"][-1]["gain"]

    def profile_of(self, logits, labels):
        return rp.StrengthProfile.from_scores(
            logits, labels, source_prior=self.calibrator.source_prior_,
            bounds=tuple(page_json(self.path)["bounds"]),
        )  # fmt: skip


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return Case(tmp_path_factory.mktemp("report"))


@contextmanager
def opened(browser, path, **options):
    """A page, with all it complains about and asks for; complaints fail the test."""
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    yield page
    context.close()
    assert said == []
    assert [url for url in asked if not url.startswith("blob:")] == [path.as_uri()]


def set_strength(page, strength):
    page.evaluate("strength => Reprior.setStrength(strength)", strength)


def visit(page, section, strength=None):
    """Scroll to a section and wait until it is drawn at the strength."""
    page.evaluate("id => document.getElementById(id).scrollIntoView()", section)
    strength = page.evaluate("Reprior.state.strength") if strength is None else strength
    page.wait_for_function(
        "([id, s]) => Number(document.getElementById(id).dataset.strength) === s",
        arg=[section, strength],
    )


def visit_all(page):
    for section in SECTIONS:
        visit(page, section)


def figure_data(page, figure):
    """What Plotly draws now: all numbers, and the marks."""
    return page.evaluate(
        "id => { const f = document.getElementById(id); return JSON.stringify([f.data, "
        "f.layout.shapes]) }",
        figure,
    )


def value(page, selector):
    return float(page.locator(selector).first.get_attribute("data-value"))


def test_every_number_is_pythons(browser, case):
    with opened(browser, case.path) as page:
        for strength in (0.0, case.calibrator.strength_, 0.1234, 0.77, 1.9, 2.0):
            set_strength(page, strength)
            visit(page, "metric-cards", strength)
            for name in ("accuracy", "balanced_accuracy", "mean_iou", "macro_f1"):
                shown = value(page, f'[data-metric="{name}"] .value')
                assert shown == pytest.approx(case.profile.evaluate(name, strength), abs=ROUNDING)
            counts = case.profile.counts(strength)
            assert value(page, '[data-metric="correct"] .value') == counts.true_positive.sum()
            visit(page, "classes", strength)
            cells = "els => els.map(e => Number(e.children[4].dataset.value))"
            rows = "els => els.map(e => Number(e.dataset.class))"
            order = page.locator("#class-table tbody tr").evaluate_all(rows)
            predicted = page.locator("#class-table tbody tr").evaluate_all(cells)
            assert predicted == counts.predicted[order].tolist()


def test_confusion_is_pythons(browser, case):
    with opened(browser, case.path) as page:
        for strength in (0.0, 0.4321, 1.5):
            set_strength(page, strength)
            visit(page, "confusion", strength)
            shown = np.array(
                page.evaluate("Array.from(Reprior.state.set.cells(Reprior.state.strength))")
            )
            w = -np.log(case.calibrator.source_prior_)
            predicted = (case.test_logits + strength * w).argmax(axis=1)
            wanted = np.zeros((6, 6))
            np.add.at(wanted, (case.test_labels, predicted), 1)
            assert np.array_equal(shown.reshape(6, 6), wanted)
            drawn = page.evaluate("document.getElementById('confusion-after').data[0].z")
            np.testing.assert_allclose(drawn, wanted / wanted.sum(axis=1, keepdims=True))
            first = page.locator("#flow-table tbody tr td[data-value]").first
            both = [float(first.get_attribute(a)) for a in ("data-before", "data-value")]
            start = np.zeros((6, 6))
            np.add.at(start, (case.test_labels, case.test_logits.argmax(axis=1)), 1)
            most = np.maximum(start, wanted) - 1e9 * np.eye(6)
            assert max(both) == most.max()


def test_reliability_is_pythons_on_the_grid(browser, case):
    calibrator = case.calibrator
    grid = unpack(page_json(case.path)["sets"][-1]["reliability"]["strengths"])
    t = calibrator.temperature_
    with opened(browser, case.path) as page:
        for strength in (0.31, 0.0, calibrator.strength_):
            set_strength(page, strength)
            visit(page, "reliability", strength)
            at = grid[np.abs(grid - strength).argmin()]
            at_temperature = t if at else 1.0
            posterior = rp.rebalance(
                case.test_logits, calibrator.source_prior_,
                strength=at / at_temperature, temperature=at_temperature,
            )  # fmt: skip
            wanted = expected_calibration_error(posterior, case.test_labels)
            assert value(page, '[data-metric="ece"] .value') == pytest.approx(wanted, abs=ROUNDING)
            note = page.locator("#reliability-note").inner_text()
            assert "on a grid: 41 even strengths" in note
            assert f"Shown at λ = {float(f'{at:.4g}'):g}" in note
            if strength == 0.0:
                was = page.locator('[data-metric="ece"] .was').inner_text()
                shown = page.locator('[data-metric="ece"] .value').inner_text()
                assert was.startswith(f"before {shown} ")


def test_the_slider_moves_every_figure_and_table(browser, case):
    with opened(browser, case.path) as page:
        visit_all(page)
        figures = {name: figure_data(page, name) for name in FIGURES}
        tables = ("optimum-table", "group-table", "class-table", "flow-table", "metric-cards")
        texts = {name: page.locator(f"#{name}").inner_text() for name in tables}
        page.evaluate("scrollTo(0, 0)")
        page.locator("#strength-slider").focus()
        page.keyboard.press("Home")
        assert page.evaluate("Reprior.state.strength") == 0.0
        page.keyboard.press("ArrowRight")
        page.keyboard.press("PageUp")
        assert page.evaluate("Reprior.state.strength") > 0.0
        page.keyboard.press("End")
        assert page.evaluate("Reprior.state.strength") == 2.0
        visit_all(page)
        assert [name for name in FIGURES if figure_data(page, name) == figures[name]] == []
        same = [name for name in tables if page.locator(f"#{name}").inner_text() == texts[name]]
        assert same == []


def test_number_and_buttons(browser, case):
    with opened(browser, case.path) as page:
        page.locator("#strength-number").fill("0.625")
        assert page.evaluate("Reprior.state.strength") == 0.625
        page.locator("#strength-number").fill("99")
        assert page.evaluate("Reprior.state.strength") == 2.0
        page.get_by_role("button", name="Uncorrected").click()
        assert page.evaluate("Reprior.state.strength") == 0.0
        page.get_by_role("button", name="Chosen").click()
        assert page.evaluate("Reprior.state.strength") == case.calibrator.strength_
        assert page.locator("#to-chosen").get_attribute("aria-pressed") == "true"


def test_the_toggle_shows_the_other_set(browser, case):
    with opened(browser, case.path) as page:
        assert page.locator("#set-test").is_checked()
        page.get_by_text("Validation", exact=True).click()
        # A selector, no expression: the page's policy forbids evaluating strings.
        page.locator("#metric-cards[data-set='validation']").wait_for(state="attached")
        shown = value(page, '[data-metric="balanced_accuracy"] .value')
        assert shown == pytest.approx(case.calibrator.best_score_, abs=ROUNDING)
        visit_all(page)
        for section in SECTIONS:
            assert page.locator(f"#{section}").get_attribute("data-set") == "validation"


def test_sorting_searching_and_groups(browser, case):
    with opened(browser, case.path) as page:
        visit(page, "classes")

        def column(i):
            cells = f"els => els.map(e => Number(e.children[{i}].dataset.value))"
            return page.locator("#class-table tbody tr").evaluate_all(cells)

        for key, i in (
            ("recall", 5),
            ("precision", 7),
            ("precisionChange", 8),
            ("iou", 9),
            ("count", 1),
        ):
            page.locator(f'[data-sort="{key}"]').click()
            assert column(i) == sorted(column(i), reverse=True)
            page.locator(f'[data-sort="{key}"]').press("Enter")
            assert column(i) == sorted(column(i))
        sorted_by = page.locator('#class-table th[aria-sort="ascending"]')
        assert sorted_by.inner_text().startswith("training count")
        page.locator("#class-search").fill("DOG")
        assert page.locator("#class-table tbody tr").count() == 1
        assert page.locator("#class-count").inner_text() == "1 of 6 classes"
        page.locator("#class-search").fill("")
        page.locator("#class-group").select_option("0")
        assert page.locator("#class-table tbody tr").count() == (case.counts > 100).sum()


def test_two_metrics_can_be_chosen(browser, case):
    with opened(browser, case.path) as page:
        visit(page, "tradeoff")
        page.locator("#metric-a").select_option("mean_iou")
        page.locator("#metric-b").select_option("accuracy")
        front = case.profile.pareto("mean_iou", "accuracy")
        drawn = page.evaluate(
            "document.getElementById('tradeoff-figure').data.find(t => t.name === 'Pareto front')"
        )
        pairs = sorted(zip(drawn["x"], drawn["y"], strict=True))
        np.testing.assert_allclose(
            pairs, sorted(zip(front.values_a, front.values_b, strict=True)), atol=ROUNDING
        )
        page.locator("#metric-b").select_option("mean_iou")
        assert "two different metrics" in page.locator("#tradeoff-note").inner_text()


def test_the_verdict_is_pythons(browser, case):
    strength = 0.9
    before, after = case.profile.baseline, case.profile.counts(strength)
    recall = rp.metrics.COUNT_METRICS["macro_recall"]
    change = recall.per_class(after) - recall.per_class(before)
    gain = recall(after) - recall(before)
    alarms = (after.predicted - after.true_positive) / after.support
    worst = int(alarms.argmax())
    with opened(browser, case.path) as page:
        set_strength(page, strength)
        visit(page, "verdict", strength)

        def words(key):
            return page.locator(f'[data-verdict="{key}"]').inner_text()

        assert f"{100 * gain:+.1f}".replace("-", "−") in words("gain")
        shown = f"{after.predicted[worst]:,} for {after.support[worst]:,}"
        assert shown in words("alarms")
        low, high = (
            np.interp(strength, *(unpack(case.gain[name]) for name in ("strengths", end)))
            for end in ("low", "high")
        )
        assert f"{100 * low:+.1f} to {100 * high:+.1f}".replace("-", "−") in words("sure")
        lists = page.locator("#verdict-classes > div")
        for i, wanted in enumerate((np.argsort(change)[:3], np.argsort(-change)[:3])):
            kept = [k for k in wanted if (change[k] < 0 if i == 0 else change[k] > 0)]
            classes = (
                lists.nth(i)
                .locator("li")
                .evaluate_all("els => els.map(e => Number(e.dataset.class))")
            )
            assert sorted(change[classes]) == sorted(change[kept])


def test_accuracy_in_the_training_mix_is_pythons(browser, case):
    prior = case.calibrator.source_prior_
    with opened(browser, case.path) as page:
        for strength in (0.0, 0.5, 1.7):
            set_strength(page, strength)
            visit(page, "metric-cards", strength)
            shown = value(page, '[data-metric="training-mix"] .value')
            counts = case.profile.counts(strength)
            wanted = prior @ (counts.true_positive / counts.support)
            assert shown == pytest.approx(wanted, abs=ROUNDING)


def test_the_trade_off_opens_on_frequent_against_rare_classes(browser, case):
    groups = page_json(case.path)["classes"]
    member = unpack(groups["group"])
    used = sorted(set(member.tolist()))
    with opened(browser, case.path) as page:
        visit(page, "tradeoff")
        assert page.locator("#metric-a").input_value() == "recall-frequent"
        assert page.locator("#metric-b").input_value() == "recall-rare"
        drawn = page.evaluate("document.getElementById('tradeoff-figure').data[0]")
        for axis, group in (("x", used[0]), ("y", used[-1])):
            for strength, shown in list(zip(drawn["customdata"], drawn[axis], strict=True))[::17]:
                counts = case.profile.counts(strength)
                inside = member == group
                wanted = (counts.true_positive[inside] / counts.support[inside]).mean()
                assert shown == pytest.approx(wanted, abs=ROUNDING)
        front = page.evaluate(
            "document.getElementById('tradeoff-figure').data.find(t => t.name === 'Pareto front')"
        )
        points = np.array([drawn["x"], drawn["y"]]).T
        for x, y in zip(front["x"], front["y"], strict=True):
            better = (points >= [x, y]).all(axis=1) & (points > [x, y]).any(axis=1)
            assert not better.any()


def test_a_cheaper_strength_is_offered_and_true(browser, tmp_path):
    """Half of the rare class is found at once; the rest costs ever more of the frequent one."""
    rng = np.random.default_rng(2)
    labels = np.repeat([0, 1], [1000, 100])
    margin = np.where(labels, rng.uniform(-4.5, 0, 1100), 0.0)
    margin[:1000] = -rng.exponential(1.6, 1000) - 1.2
    logits = np.stack([np.zeros(1100), margin], axis=1)
    calibrator = rp.PosteriorCalibrator([0.9, 0.1]).fit(logits, labels)
    path = write_report(tmp_path / "r.html", calibrator, [(logits, labels)])
    with opened(browser, path) as page:
        visit(page, "verdict")
        offer = page.evaluate("Reprior.cheaper(Reprior.state.set)")
        assert offer is not None
        page.locator("#to-cheaper").click()
        at = page.evaluate("Reprior.state.strength")
        profile = calibrator.profile_
        chosen = calibrator.strength_
        assert 0 < at < chosen
        gain = [profile.evaluate("balanced_accuracy", x) for x in (0.0, at, chosen)]
        assert offer["kept"] == pytest.approx((gain[1] - gain[0]) / (gain[2] - gain[0]))
        assert offer["kept"] - offer["paid"] >= 0.25


@pytest.mark.parametrize("strength", [None, 0.4321])
def test_the_calibrator_can_be_downloaded(browser, case, tmp_path, strength):
    chosen = case.calibrator.strength_
    with opened(browser, case.path) as page:
        if strength is not None:
            set_strength(page, strength)
        with page.expect_download() as download:
            page.locator("#download").click()
        download.value.save_as(tmp_path / "cal.json")
    loaded = rp.load(tmp_path / "cal.json")
    assert loaded.strength_ == (chosen if strength is None else strength)
    assert loaded.temperature_ == case.calibrator.temperature_
    wanted = (case.test_logits - loaded.strength_ * np.log(case.calibrator.source_prior_)).argmax(1)
    assert (loaded.predict(case.test_logits) == NAMES[wanted]).all()


def test_a_click_on_the_curves_sets_the_strength(browser, case):
    with opened(browser, case.path) as page:
        visit(page, "curves-figure")
        box = page.locator("#curves-figure").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 100)
        tip = page.locator("#curves-figure + .tip")
        assert tip.locator("div").count() == 1 + 5
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 100)
        at = page.evaluate("Reprior.state.strength")
        assert 0.8 < at < 1.2
        shown = f"{100 * case.profile.evaluate('accuracy', at):.2f} %"
        assert f"accuracy {shown}" in tip.inner_text()


def test_names_are_inert(browser, case):
    with opened(browser, case.path) as page:
        visit_all(page)
        assert page.evaluate("window.hacked === undefined")
        assert page.locator("main img, main script").count() == 0
        assert NAMES[1] in page.locator("#class-table").inner_text()
        ticks = page.locator("#classes-figure .xtick").all_text_contents()
        assert "<script>windo…" in ticks
        assert page.locator("#class-table b").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(browser, case, scheme):
    ink = {"light": "rgb(29, 35, 48)", "dark": "rgb(232, 234, 240)"}
    other = {"light": "dark", "dark": "light"}[scheme]
    color = "getComputedStyle(document.body).color"
    tick = "getComputedStyle(document.querySelector('#curves-figure .xtick text')).fill"
    with opened(browser, case.path, color_scheme=scheme) as page:
        assert page.evaluate(color) == page.evaluate(tick) == ink[scheme]
        page.locator("#theme").click()
        assert page.evaluate(color) == ink[other]
        visit(page, "curves-figure")
        page.wait_for_function(f"() => {tick} === '{ink[other]}'")


def test_a_phone_need_not_scroll_sideways(browser, case):
    phone = {"viewport": {"width": 375, "height": 740}, "has_touch": True, "is_mobile": True}
    with opened(browser, case.path, **phone) as page:
        visit_all(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        wide = page.evaluate(
            "Array.from(document.querySelectorAll('.figure, .card, .controls, h1, p'))"
            ".filter(e => e.getBoundingClientRect().right > 376).map(e => e.id)"
        )
        assert wide == []


def test_print_draws_everything_in_light(browser, case, tmp_path):
    with opened(browser, case.path, color_scheme="dark") as page:
        page.pdf(path=tmp_path / "page.pdf", format="A4")
        assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
        for section in SECTIONS:
            assert page.locator(f"#{section}").get_attribute("data-set") == "test"


def test_tables_fit_the_paper(browser, case):
    paper = {"width": 688, "height": 900}  # A4 less its margins
    with opened(browser, case.path, viewport=paper) as page:
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        wide = page.locator("table").evaluate_all(
            "els => els.filter(e => e.getBoundingClientRect().right > 689).map(e => e.id)"
        )
        assert wide == []


def test_numbers_come_before_figures(browser, case):
    """Plotly, most of what there is to read in, is not there when the numbers are."""
    with opened(browser, case.path) as page:
        marks = "performance.getEntriesByType('mark').map(e => e.name)"
        assert page.evaluate(marks) == ["first-numbers", "first-figure"]
        assert page.locator("#plotly-source").count() == 0


def test_labels_for_everything_that_can_be_moved(browser, case):
    with opened(browser, case.path) as page:
        nameless = page.evaluate(
            "Array.from(document.querySelectorAll('input, select, button'))"
            ".filter(e => !(e.labels && e.labels.length) && !e.getAttribute('aria-label')"
            " && !e.textContent.trim()).map(e => e.id)"
        )
        assert nameless == []
        levels = page.locator("h1, h2").evaluate_all("els => els.map(e => e.tagName)")
        assert levels.count("H1") == 1


def test_weights_and_thinned_switches(browser, tmp_path, monkeypatch):
    monkeypatch.setattr("reprior.report.payload.SIZE_LIMITS", (SizeLimits(rows=150),))
    rng = np.random.default_rng(4)
    logits, labels, counts = make_scores(rng, n=400, k=40)
    weight = rng.random(400)
    calibrator = rp.PosteriorCalibrator(rp.prior_from_counts(counts))
    calibrator.fit(logits, labels, weight)
    path = write_report(tmp_path / "r.html", calibrator, chunked(logits, labels, weight))
    with opened(browser, path) as page:
        width = page.evaluate("Reprior.sets[0].raw.resolution")
        assert page.evaluate("Reprior.sets[0].raw.perClass")
        for strength in (0.0, calibrator.strength_, 2 * width, 2.0):
            set_strength(page, strength)
            visit(page, "metric-cards", strength)
            for name in ("accuracy", "balanced_accuracy", "mean_iou", "macro_precision"):
                shown = value(page, f'[data-metric="{name}"] .value')
                wanted = calibrator.profile_.evaluate(name, strength)
                assert shown == pytest.approx(wanted, abs=ROUNDING)
        visit_all(page)
        cells = np.array(page.evaluate("Array.from(Reprior.state.set.cells(2.0))"))
        assert cells.sum() == pytest.approx(weight.sum())
        assert "too many pairs" in page.locator("#flows-note").inner_text()
        assert f"multiples of {width:g}" in page.locator("#thinning-note").inner_text()


def test_8142_classes_open(browser, tmp_path):
    rng = np.random.default_rng(0)
    n, k = 3000, 8142
    counts = np.maximum(1, (1000 * 500.0 ** -np.linspace(0, 1, k)).astype(int))
    labels = rng.integers(0, k, n)
    logits = rng.standard_normal((n, k), dtype=np.float32)
    logits[np.arange(n), labels] += 9 * rng.random(n, dtype=np.float32)
    logits += np.log(counts / counts.sum()).astype(np.float32)
    calibrator = rp.PosteriorCalibrator(rp.prior_from_counts(counts))
    with pytest.warns(rp.RepriorWarning, match="classes have no tuning labels"):
        calibrator.fit(logits, labels)
    path = write_report(
        tmp_path / "big.html", calibrator, chunked(logits, labels, size=1000), counts=counts
    )
    assert path.stat().st_size < 15_000_000
    with opened(browser, path) as page:
        set_strength(page, 0.5)
        visit_all(page)
        shown = value(page, '[data-metric="mean_iou"] .value')
        assert shown == pytest.approx(calibrator.profile_.evaluate("mean_iou", 0.5), abs=ROUNDING)
        assert "Page 1 of 326" in page.locator("#page-state").inner_text()
        page.locator("#page-next").click()
        assert page.locator("#class-table tbody tr").count() == 25
        assert "10 groups of classes" in page.locator("#confusion-note").inner_text()


def test_a_falling_cost_is_better_and_no_percentage(browser, tmp_path):
    rng = np.random.default_rng(5)
    logits, labels, counts = make_scores(rng, n=500, k=4)
    cost = rp.Cost(100.0 * (1.0 - np.eye(4)) * np.arange(1, 5)[:, None])
    calibrator = fitted(logits, labels, counts, metric=cost)
    path = write_report(tmp_path / "r.html", calibrator, chunked(logits, labels))
    profile = calibrator.profile_
    before, after = (profile.evaluate(cost, at) for at in (0.0, calibrator.strength_))
    assert after < before
    with opened(browser, path) as page:
        visit_all(page)
        card = page.locator('#metric-cards [data-metric="cost"]')
        assert "%" not in card.inner_text()
        assert value(page, '#metric-cards [data-metric="cost"] .value') == pytest.approx(after)
        assert card.locator(".was span").get_attribute("class") == "up"  # the good colour
        gain = page.locator('[data-verdict="gain"]')
        assert "up" in gain.locator(".value").get_attribute("class")
        assert "%" not in gain.inner_text()
        drawn, _ = json.loads(figure_data(page, "curves-figure"))
        traces = {trace["name"]: trace for trace in drawn}
        assert traces["cost"]["yaxis"] == "y2"
        assert "yaxis" not in traces["accuracy"]
        layout = page.evaluate("document.getElementById('curves-figure').layout")
        assert layout["yaxis"]["tickformat"] == ".0%"
        assert layout["yaxis2"]["title"]["text"] == "cost"
        assert "tickformat" not in layout["yaxis2"]
        page.locator("#metric-a").select_option("cost")
        page.locator("#metric-b").select_option("recall-rare")
        axis = page.evaluate("document.getElementById('tradeoff-figure').layout.xaxis")
        assert "tickformat" not in axis
        drawn, _ = json.loads(figure_data(page, "tradeoff-figure"))
        front = next(trace for trace in drawn if trace["name"] == "Pareto front")
        assert (np.diff(front["x"]) > 0).all()  # cheapest first
        assert (np.diff(front["y"]) > 0).all()
