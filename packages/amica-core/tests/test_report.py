"""The report, opened in a browser."""

import html
import re
import shutil
import subprocess

import amica_core as ac
import numpy as np
import pytest
from amica_core._summary import describe, summarize

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
CHROMIUM = next(
    (p for name in ("chromium", "chromium-browser", "google-chrome")
     if (p := shutil.which(name))),
    None,
)  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(4)
    X = rng.laplace(size=(800, 3)) @ rng.normal(size=(3, 3))
    X[100:103] *= 30
    rejection = ac.Rejection(rounds=1)
    result = ac.fit(X, n_models=2, max_iter=10, random_state=0, rejection=rejection)
    return X, result


@pytest.fixture(scope="module")
def page(fitted, tmp_path_factory):
    X, result = fitted
    path = tmp_path_factory.mktemp("a report") / "fit <1>.html"
    ac.write_report(result, path, X, rate=100.0, title="rest & <task>")
    return path


FIGURES = [
    "log-likelihood",
    "posteriors",
    "rejected",
    *(f"{name}-{h}" for h in (1, 2) for name in ("maps", "sources", "densities")),
]


def test_page_holds_everything(page, fitted):
    text = page.read_text()
    assert re.findall(r'<figure id="([^"]*)"', text) == FIGURES
    assert not re.findall(r'(?:src|href)="(?!data:)', text)
    assert "rest &amp; &lt;task&gt;" in text
    assert "<task>" not in text
    for line in describe(fitted[1]).splitlines():
        assert html.escape(line.split(None, 1)[1]) in text
    assert [p.name for p in page.parent.iterdir()] == [page.name]
    assert page.stat().st_mode & 0o044 == 0o044  # others may read it, as any file


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the search path")
def test_browser_shows_every_figure(page, tmp_path):
    # The copy writes what the browser made of each picture into its own text.
    script = """
<script>addEventListener("load", () => {
  const seen = [...document.querySelectorAll("figure img")].map(
    i => i.parentElement.id + ":" + (i.complete ? i.naturalWidth : 0)
         + "x" + Math.round(i.getBoundingClientRect().height));
  document.body.setAttribute("data-seen", seen.join(" "));
})</script></body>"""
    copy = tmp_path / "copy.html"
    copy.write_text(page.read_text().replace("</body>", script))
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", copy.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    found = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert found, done.stderr
    sizes = dict(item.split(":") for item in found[1].split(" "))
    assert list(sizes) == FIGURES
    for size in sizes.values():
        width, height = map(int, size.split("x"))
        assert width > 300
        assert height > 50


def test_without_samples(fitted, tmp_path):
    path = tmp_path / "report.html"
    ac.write_report(fitted[1], path)
    found = re.findall(r'<figure id="([^"]*)"', path.read_text())
    assert found == ["log-likelihood", "maps-1", "maps-2"]


def test_fit_without_history(fitted, tmp_path):
    bare = ac.to_amicaout(fitted[1])
    result = ac.from_amicaout(bare.__class__(**{**bare.__dict__, "LL": None}))
    ac.write_report(result, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "not recorded" in text
    assert 'id="maps-1"' in text
    assert summarize(result)["log_likelihood"] is None


def test_samples_of_other_channels(fitted, tmp_path):
    with pytest.raises(ValueError, match=r"`X` must be \(samples, 3\)"):
        ac.write_report(fitted[1], tmp_path / "r.html", np.zeros((5, 2)))
    assert not list(tmp_path.iterdir())
