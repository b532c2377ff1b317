"""Pictures: what is drawn, on which axes, and what is refused."""

import subprocess
import sys
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import (
    LIF,
    Graph,
    History,
    LayerActivity,
    LeakyIntegrator,
    Recurrent,
    Sequential,
)

matplotlib = pytest.importorskip("matplotlib", reason="needs matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402
from spike_core import plot  # noqa: E402


@pytest.fixture(autouse=True)
def no_open_figures():
    yield
    pyplot.close("all")


SPIKES = np.zeros((6, 3), bool)
SPIKES[[1, 4, 4], [0, 0, 2]] = True
LAYERS = [
    LayerActivity("net.layers[1]", 0.1, 0.25, 0.0),
    LayerActivity("net.layers[3]", 0.0, 1.0, 0.0),
    LayerActivity("net.layers[5]", 0.99, 0.0, 1.0),
]
NUMBERS = History({"loss": [2.0, 1.0], "validation loss": [2.0, 3.0]}, best_epoch=0)
RNGS = nnx.Rngs(0)
NET = Sequential(
    nnx.Linear(4, 8, rngs=RNGS),
    Recurrent(LIF(8), nnx.Linear(8, 8, use_bias=False, rngs=RNGS)),
    lambda x: 2 * x,
    nnx.Linear(8, 2, rngs=RNGS),
    LeakyIntegrator(2),
)
PICTURES = {
    "raster": lambda ax: plot.raster(SPIKES, ax=ax),
    "membrane": lambda ax: plot.membrane(SPIKES + 0.5, ax=ax),
    "activity": lambda ax: plot.activity(LAYERS, ax=ax),
    "weights": lambda ax: plot.weights(np.eye(3), ax=ax),
    "network": lambda ax: plot.network(NET, ax=ax),
    "history": lambda ax: plot.history(NUMBERS, ax=ax),
}


@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_draws_on_the_axes_given_and_on_new_ones(draw):
    figure, ax = pyplot.subplots()
    open_ones = pyplot.get_fignums()
    assert draw(ax) is ax and pyplot.get_fignums() == open_ones
    fresh = draw(None)
    assert fresh is not ax and fresh.figure is not figure
    fresh.figure.savefig("/dev/null", format="png")
    with pytest.raises(TypeError, match="`ax` must be matplotlib Axes, got Figure"):
        draw(figure)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float64, jnp.bfloat16])
def test_raster_marks_each_spike(dtype):
    (line,) = plot.raster(jnp.asarray(SPIKES, dtype), dt=0.5).lines
    np.testing.assert_array_equal(line.get_xydata(), [[0.5, 0], [2, 0], [2, 2]])


def test_time_may_stand_last():
    ax = plot.raster(SPIKES.T, time_axis=1)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [1, 4, 4])
    assert len(plot.membrane(np.ones((2, 9)), time_axis=-1).lines) == 2


def test_membrane_has_threshold_and_spikes_in_the_color_of_their_line():
    v = np.random.default_rng(0).normal(size=(6, 3))
    ax = plot.membrane(v, threshold=1.5, spikes=SPIKES, dt=2.0)
    lines, (level,), marks = ax.lines[:3], ax.lines[3:4], ax.lines[4:]
    np.testing.assert_array_equal(lines[1].get_ydata(), v[:, 1])
    assert list(level.get_ydata()) == [1.5, 1.5]
    assert [len(mark.get_xdata()) for mark in marks] == [2, 0, 1]
    assert [m.get_color() for m in marks] == [line.get_color() for line in lines]
    assert min(marks[0].get_ydata()) > max(1.5, v.max())


def test_activity_names_what_is_wrong():
    ax = plot.activity(LAYERS)
    said = [text.get_text().strip() for text in ax.texts]
    assert said == ["25% silent", "100% silent", "100% saturated"]
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        layer.name for layer in LAYERS
    ]
    assert len({bar.get_facecolor() for bar in ax.patches}) == 3


def test_weights_of_arrays_layers_and_convolutions():
    convolution = SimpleNamespace(kernel=np.random.default_rng(0).random((3, 3, 2, 5)))
    image = plot.weights(convolution).images[0]
    assert image.get_array().shape == (5, 18)
    assert image.norm.vmin == -image.norm.vmax
    np.testing.assert_array_equal(
        plot.weights(np.array([[1.0, 2.0, -4.0]])).images[0].get_array(),
        [[1.0], [2.0], [-4.0]],
    )
    assert plot.weights(np.zeros((2, 2))).images[0].norm.vmax == 1
    assert len(plot.weights(np.eye(2)).figure.axes) == 2  # and a colour bar


def arrows(ax):
    return [text.arrow_patch for text in ax.texts if not text.get_text()]


def test_network_of_a_graph_shows_what_is_late():
    layers = {"a": LIF(4), "back": nnx.Linear(4, 4, rngs=RNGS), "b": Sequential(abs)}
    edges = [
        ("input", "a"),
        ("a", "back"),
        ("back", "a"),
        ("a", "b"),
        ("input", "b"),
        ("b", "output"),
    ]
    ax = plot.network(Graph(layers, edges))
    labels = [text.get_text() for text in ax.texts if text.get_text()]
    assert labels == ["input", "LIF\n4", "Linear\n4 → 4", "abs", "output"]
    late = [arrow for arrow in arrows(ax) if arrow.get_linestyle() == "--"]
    assert len(arrows(ax)) == 6 and len(late) == 1
    places = [t.get_position() for t in ax.texts if t.get_text()]
    assert len(set(places)) == 5  # no box hides another


def test_network_of_a_function():
    ax = plot.network(lambda x: x)
    assert [t.get_text() for t in ax.texts if t.get_text()][1] == "function"


def test_history_takes_some_of_the_columns():
    ax = plot.history(NUMBERS, columns=["validation loss"])
    assert [line.get_label() for line in ax.lines] == [
        "validation loss",
        "best epoch, 0",
    ]
    assert len(plot.history(History({"loss": [1.0]})).lines) == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plot.raster([[0, 1]]), TypeError, "`spikes` must be an array"),
        (lambda: plot.raster(np.ones((5, 2, 3))), ValueError, "choose a sample first"),
        (lambda: plot.raster(np.ones((0, 3))), ValueError, "not empty"),
        (lambda: plot.raster(np.full((2, 2), np.nan)), ValueError, "got nan"),
        (lambda: plot.raster(SPIKES, dt=0), ValueError, "`dt` must be finite and gr"),
        (lambda: plot.raster(SPIKES, time_axis=2), ValueError, "`time_axis`"),
        (lambda: plot.membrane(np.ones(3)), ValueError, "`v` must be one sample"),
        (
            lambda: plot.membrane(np.ones((6, 2)), spikes=SPIKES),
            ValueError,
            "`spikes` must have the shape",
        ),
        (
            lambda: plot.membrane(np.ones((6, 2)), threshold=np.nan),
            ValueError,
            "`threshold` must be finite",
        ),
        (lambda: plot.activity([]), ValueError, "`layers` must not be empty"),
        (lambda: plot.activity(NET), TypeError, "`layers` must be a list of"),
        (lambda: plot.activity([0.5]), TypeError, "`layers` must be a list of"),
        (lambda: plot.weights(NET), TypeError, "`values` must be an array or a layer"),
        (lambda: plot.weights(np.ones(3)), ValueError, r"`values` must be \[inputs"),
        (lambda: plot.weights(np.ones((0, 3))), ValueError, "not empty"),
        (lambda: plot.network(3), TypeError, "`net` must be callable"),
        (lambda: plot.history({"loss": [1]}), TypeError, "`numbers` must be a History"),
        (lambda: plot.history(History()), ValueError, "at least one epoch"),
        (
            lambda: plot.history(NUMBERS, columns=["accuracy"]),
            ValueError,
            "`columns` must be among",
        ),
    ],
)
def test_refuses_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_matplotlib_comes_when_it_is_needed():
    code = """
import sys
import numpy as np
import spike_core
from spike_core import plot
assert "matplotlib" not in sys.modules
sys.modules["matplotlib"] = None
try:
    plot.raster(np.eye(3))
except ImportError as error:
    assert 'pip install "spike-core[plot]"' in str(error)
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
