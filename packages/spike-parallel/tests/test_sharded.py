"""The time axis over eight devices, in a process of its own that has as many."""

import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import LIF, Sequential, unroll
from spike_parallel import Associative, Chunked, SlidingPSN


def test_eight_devices_equal_one():
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        # Eight devices, and programs that run once compiled in haste.
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8 "
        "--xla_backend_optimization_level=0",
    }
    script = pathlib.Path(__file__).with_name("eight_devices.py")
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["recurrence", "associative", "chunked", "folded"]


def one_device(name="time"):
    return jax.sharding.Mesh(np.array(jax.devices()[:1]), (name,))


@pytest.mark.parametrize("build", [Associative, lambda **k: Chunked(4, **k)])
def test_bad_meshes_are_named(build):
    with pytest.raises(ValueError, match=r"`mesh` must be a jax\.sharding\.Mesh"):
        build(mesh="devices")
    with pytest.raises(ValueError, match=r"`axis` must be one of the mesh axes \('x'"):
        build(mesh=one_device("x"))


def test_steps_that_are_left_over_are_named():
    with pytest.raises(ValueError, match="must be a multiple of `chunk`, 4"):
        unroll(
            LIF(3, reset="none"),
            jnp.ones((6, 3)),
            strategy=Chunked(4, mesh=one_device()),
        )


def test_what_cannot_be_cut_is_named():
    sliding = SlidingPSN(3, 2)
    with pytest.raises(ValueError, match="net, a SlidingPSN, reaches over the border"):
        unroll(sliding, jnp.ones((6, 3)), strategy=Associative(mesh=one_device()))
    random = Sequential(nnx.Dropout(0.5, rngs=nnx.Rngs(0)), LIF(3, reset="none"))
    with pytest.raises(ValueError, match="cannot have its time axis sharded"):
        unroll(random, jnp.ones((6, 3)), strategy=Associative(mesh=one_device()))
