import os
import subprocess
import sys

import pytest


def test_import_needs_numpy_alone():
    code = (
        "import sys\n"
        "for name in ('jax', 'jaxlib'): sys.modules[name] = None\n"
        "import spike_native\n"
        "assert spike_native.border_stride() > 0\n"
        "assert spike_native.__version__\n"
        "from spike_native import xla\n"
        "try: xla.forward(spike_native.Neuron(), None, None, None)\n"
        "except ImportError as error: assert 'spike-native[jax]' in str(error)\n"
        "else: raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_oldest_instruction_set_agrees():
    code = (
        "import numpy as np\n"
        "from spike_native import Neuron, backward, forward\n"
        "rng = np.random.default_rng(0)\n"
        "xs = rng.normal(0.5, 1.0, (50, 37))\n"
        "parameters = np.array([[0.9], [0.5], [1.0]])\n"
        "run = forward(Neuron(), xs, parameters, np.zeros((1, 37)))\n"
        "ones = np.ones_like(xs), np.zeros((1, 37))\n"
        "grads = backward(Neuron(), xs, parameters, run.borders, *ones)\n"
        "print(run.ys.sum(), *(np.abs(g).sum() for g in grads))\n"
    )

    def run(**variables):
        done = subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            env=os.environ | variables,
            capture_output=True,
            text=True,
        )
        return [float(word) for word in done.stdout.split()]

    best, oldest = run(), run(SPIKE_NATIVE_BASELINE="1")
    assert best == pytest.approx(oldest, rel=1e-12)
    assert oldest[0] > 100
