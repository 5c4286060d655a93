"""What a step of libsdtw.jax costs beside the computation: microseconds per call of compiled programs.

    python benchmarks/overhead_jax.py
    python benchmarks/overhead_jax.py --shape 32,64,1 --shape 1,2,1

Prints one JSON object a line: layer, device, B, N, d, problem, median_us, p10_us, p90_us, min_us. A step is
value and gradients of x and y; a scan over diagonals is the same as a program of JAX's own. Where optax is
installed optax.ctc_loss is measured too, for as many and as long sequences, with targets half as long. Calls
of the library have one thread (OMP_NUM_THREADS=1 is set); XLA's own threads are as they are.
"""

import argparse
import json
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import jax
import jax.numpy as jnp
import numpy as np

from libsdtw.jax import soft_dtw
from lines import line_of
from timing import cpu_name

BLOCKS = 30


def layers(x, y):
    """{name: call} of compiled programs, and of one call outside of any."""

    def loss(x, y, gamma):
        return soft_dtw(x, y, gamma=gamma, reduction="mean")

    value, step = jax.jit(loss), jax.jit(jax.value_and_grad(loss, (0, 1)))
    nothing = jax.jit(jax.value_and_grad(lambda x, y: (x[0] * y[0]).sum(), (0, 1)))
    mean = jax.jit(lambda x, y, gamma: jax.vmap(by_scan, (0, 0, None))(x, y, gamma).mean())
    scan = jax.jit(jax.value_and_grad(mean, (0, 1)))
    gamma = jnp.float32(1)
    np.testing.assert_allclose(mean(x, y, gamma), value(x, y, gamma), rtol=1e-4)
    return {
        "jax: soft_dtw, step": lambda: step(x, y, gamma),
        "jax: soft_dtw, value only": lambda: value(x, y, gamma),
        "jax: soft_dtw, value only, not compiled": lambda: soft_dtw(x, y),
        "jax: a scan over diagonals, step": lambda: scan(x, y, gamma),
        "jax: a step that computes next to nothing": lambda: nothing(x, y),
        **ctc_layers(x),
    }


def by_scan(x, y, gamma):
    """The same as a program of JAX's own: a scan over anti-diagonals of one pair's matrix of costs."""
    n, m = len(x), len(y)
    cost = ((x[:, None] - y[None]) ** 2).sum(-1)
    far = 1e9  # infinity has no derivative
    i, k = jnp.arange(n), jnp.arange(n + m - 1)[:, None]
    skewed = jnp.where((k >= i) & (k - i < m), cost[i, jnp.clip(k - i, 0, m - 1)], far)

    def step(carry, row):
        before, last = carry
        above = jnp.concatenate([jnp.full(1, far), last[:-1]])
        diagonal = jnp.concatenate([jnp.full(1, far), before[:-1]])
        low = -gamma * jax.nn.logsumexp(-jnp.stack([diagonal, above, last]) / gamma, 0)
        return (last, jnp.minimum(row + low, far)), None

    first = jnp.full(n, far).at[0].set(skewed[0, 0])
    (_, last), _ = jax.lax.scan(step, (jnp.full(n, far), first), skewed[1:])
    return last[-1]


def ctc_layers(x):
    try:
        import optax
    except ImportError:
        print("left out: optax.ctc_loss, as optax is not installed", file=sys.stderr)
        return {}
    batch, n, features = x.shape
    symbols, most = max(2, features) + 1, max(1, n // 2)
    rng = np.random.default_rng(0)
    logits = jnp.asarray(rng.normal(size=(batch, n, symbols)), jnp.float32)
    labels = jnp.asarray(rng.integers(1, symbols, (batch, most)))
    padding = jnp.zeros((batch, n)), jnp.zeros((batch, most))

    def loss(logits):
        return optax.ctc_loss(logits, padding[0], labels, padding[1]).mean()

    step = jax.jit(jax.value_and_grad(loss))
    return {"jax: optax.ctc_loss, step": lambda: step(logits)}


def blocks_of(call, count):
    """Microseconds of a call, for every block of count calls."""
    times = []
    for block in range(BLOCKS + 1):
        begin = time.perf_counter()
        for _ in range(count):
            jax.block_until_ready(call())
        if block:  # the first compiles
            times.append((time.perf_counter() - begin) / count * 1e6)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", action="append", metavar="B,N,d", help="(default: 32,64,1 and 1,2,1)")
    args = parser.parse_args()
    device = jax.devices()[0]
    print(f"jax {jax.__version__}, {cpu_name() if device.platform == 'cpu' else device}", file=sys.stderr)
    rng = np.random.default_rng(0)
    for text in args.shape or ("32,64,1", "1,2,1"):
        batch, n, features = map(int, text.split(","))
        x, y = (jnp.asarray(rng.normal(size=(batch, n, features)), jnp.float32) for _ in "xy")
        for layer, call in layers(x, y).items():
            p10, median, p90 = np.percentile(times := blocks_of(call, 30), [10, 50, 90]).round(2)
            fields = {"layer": layer, "device": device.platform, "B": batch, "N": n, "d": features}
            fields["problem"] = line_of(fields)
            numbers = {"median_us": median, "p10_us": p10, "p90_us": p90, "min_us": round(min(times), 2)}
            print(json.dumps({**fields, **numbers}), flush=True)


if __name__ == "__main__":
    main()
