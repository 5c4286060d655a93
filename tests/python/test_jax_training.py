# Training on several devices: jax.shard_map with the loss, on two virtual CPU devices; and in two processes.
import os
import socket
import subprocess
import sys

import pytest

PROGRAM = """
import jax, jax.numpy as jnp
import numpy as np
from functools import partial
from jax.sharding import Mesh, PartitionSpec as P
from libsdtw.jax import soft_dtw

assert len(jax.devices()) == 2
mesh = Mesh(jax.devices(), ("batch",))
x, y = (jax.random.normal(jax.random.key(n), (8, n, 2)) for n in (9, 7))
lengths = jnp.array([9, 8, 7, 6, 5, 4, 3, 2])
first = {"w": 0.5 * jax.random.normal(jax.random.key(0), (2, 16)), "v": jnp.ones((16, 2)) / 16}

def loss(parameters, x, y, lengths):
    moved = jnp.tanh(x @ parameters["w"]) @ parameters["v"]
    return soft_dtw(moved, y, gamma=0.5, x_lengths=lengths, normalize=True).mean()

def step(parameters, *batch):
    value, slopes = jax.value_and_grad(loss)(parameters, *batch)
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, slopes), value

def train(step):
    parameters, values = first, []
    for _ in range(3):
        parameters, value = step(parameters, x, y, lengths)
        values.append(value)
    return parameters, jnp.stack(values)

expected = train(jax.jit(step))

@jax.jit
@partial(jax.shard_map, mesh=mesh, in_specs=(P(), *[P("batch")] * 3), out_specs=(P(), P()))
def mapped(parameters, *batch):
    # Each device has its own copy of the parameters, whose slopes are then those of its own part
    local = jax.tree.map(lambda p: jax.lax.pcast(p, "batch", to="varying"), parameters)
    value, slopes = jax.lax.pmean(jax.value_and_grad(loss)(local, *batch), "batch")
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, slopes), value

def summed(parameters, *batch):  # or its mean over all, of which JAX takes the slopes
    return jax.lax.pmean(loss(parameters, *batch), "batch")

@jax.jit
def outside(parameters, *batch):
    split = jax.shard_map(summed, mesh=mesh, in_specs=(P(), *[P("batch")] * 3), out_specs=P())
    value, slopes = jax.value_and_grad(split)(parameters, *batch)
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, slopes), value

for way in (mapped, outside):
    assert "all-gather" not in way.lower(first, x, y, lengths).compile().as_text()
    for a, b in zip(jax.tree.leaves(train(way)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
print("trained")
"""


def test_two_devices():
    jax = pytest.importorskip("jax")
    if not (hasattr(jax, "shard_map") and hasattr(jax.lax, "pcast")):
        pytest.skip("of JAX before 0.7 shard_map has other names")
    devices = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    environment = {**os.environ, **devices, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, "-c", PROGRAM]
    result = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=240)
    assert result.stdout.strip() == "trained", result.stderr


OF_TWO = """
import sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from libsdtw.jax import soft_dtw

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
split = NamedSharding(Mesh(jax.devices(), ("batch",)), P("batch"))
rng = np.random.default_rng(0)
x, y = (rng.normal(size=(4, steps, 2)).astype(np.float32) for steps in (7, 6))
lengths = np.array([7, 3, 1, 5], np.int32)
given = [jax.make_array_from_callback(t.shape, split, lambda at, t=t: t[at]) for t in (x, y, lengths)]

def grad(x, y, lengths):
    return jax.grad(lambda x: soft_dtw(x, y, x_lengths=lengths).sum())(x)

ours, want = grad(*given), grad(x, y, lengths)
for part in ours.addressable_shards:
    np.testing.assert_allclose(part.data, want[part.index], rtol=1e-5, atol=1e-6)
print("as one process")
"""


def test_lengths_that_are_split_over_processes():
    pytest.importorskip("jax")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    pipes = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    first, second = (
        subprocess.Popen([sys.executable, "-c", OF_TWO, address, str(k)], env=environment, **pipes)
        for k in range(2)
    )
    with first, second:
        try:
            for process in (first, second):
                out, error = process.communicate(timeout=120)
                assert "as one process" in out, error
        finally:
            first.kill()
            second.kill()
