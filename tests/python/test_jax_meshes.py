# libsdtw.jax on meshes with explicit axes, where types say how arrays are split: on four virtual CPU devices.
import os
import subprocess
import sys

import jax
import pytest

PROGRAM = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from libsdtw.jax import sharp_soft_dtw, soft_dtw, soft_dtw_alignment, soft_dtw_cdist, soft_dtw_divergence

mesh = jax.make_mesh((2, 2), ("batch", "time"), axis_types=(AxisType.Explicit,) * 2)
x = jax.random.normal(jax.random.key(0), (4, 4, 2))
y = jax.random.normal(jax.random.key(1), (4, 6, 2))
n = jnp.array([4, 3, 2, 1])

def total(x, y, n, of=soft_dtw):
    return of(x, y, gamma=0.5, x_lengths=n).sum()

def slope(gamma, x, y):
    return jax.grad(lambda x: soft_dtw(x, y, gamma=gamma).sum())(x)

EACH = {  # pair by pair
    "value": lambda x, y, n: soft_dtw(x, y, gamma=0.5, x_lengths=n),
    "grad": jax.grad(total, (0, 1)),
    "product": lambda x, y, n: jax.jvp(lambda x: jax.grad(total)(x, y, n), (x,), (x,))[1],
    "divergence": lambda x, y, n: jax.grad(total)(x, y, n, soft_dtw_divergence),
    "sharp": lambda x, y, n: jax.grad(total)(x, y, n, sharp_soft_dtw),
    "alignment": lambda x, y, n: jax.grad(lambda x: (soft_dtw_alignment(x, y) ** 2).sum())(x),
    "gammas": lambda x, y, n: jax.vmap(slope, (0, None, None), 1)(jnp.array([0.5, 1.0]), x, y),
    "hessians": lambda x, y, n: jax.vmap(jax.hessian(soft_dtw))(x, y),
}
ALL = {
    "outer": lambda x, y, n: jax.grad(lambda x: soft_dtw(x[:, None], y, x_lengths=n[:, None]).sum())(x),
    "cdist": lambda x, y, n: soft_dtw_cdist(x, y, normalize=True),
    "symmetric": lambda x, y, n: jax.grad(lambda x: soft_dtw_cdist(x, x_lengths=n).sum())(x),
    "blocks": lambda x, y, n: jax.grad(lambda x: soft_dtw_cdist(x, y, x_lengths=n, block=3).sum())(x),
    "own": lambda x, y, n: jax.grad(lambda x: soft_dtw_cdist(x, y, normalize=True, block=3).sum())(x),
}
SPLIT = P("batch")

def check(function, of_x, of_y, of_n=P()):
    want = jax.jit(function)(x, y, n)
    with jax.set_mesh(mesh):
        given = [jax.device_put(t, NamedSharding(mesh, s)) for t, s in ((x, of_x), (y, of_y), (n, of_n))]
        program = jax.jit(function).lower(*given).compile()
        ours = program(*given)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    return program.as_text(), given, jax.tree.leaves(ours)

if sys.argv[1] == "pair by pair":
    for function in EACH.values():
        text, _, ours = check(function, SPLIT, SPLIT, SPLIT)
        assert "all-gather" not in text and "all-to-all" not in text
        assert all(jax.typeof(one).sharding.spec[0] == "batch" for one in ours)
    with jax.set_mesh(mesh):  # outside of programs
        given = [jax.device_put(t, NamedSharding(mesh, SPLIT)) for t in (x, y, n)]
        for a, b in zip(EACH["grad"](*given), jax.jit(EACH["grad"])(x, y, n), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
elif sys.argv[1] == "all pairs":
    for function in ALL.values():
        check(function, SPLIT, SPLIT, SPLIT)
elif sys.argv[1] == "of arrays made before":
    for function in (EACH["grad"], *ALL.values()):
        want = jax.tree.leaves(jax.jit(function)(x, y, n))
        with jax.set_mesh(mesh):
            ours = jax.tree.leaves(jax.jit(function)(x, y, n))
        for a, b in zip(ours, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
elif sys.argv[1] == "axes of several kinds":
    want = jax.jit(EACH["grad"])(x, y, n)
    each, some = (AxisType.Explicit, AxisType.Auto), {"batch"}
    for types, names in ((each, None), (each[::-1], None), (each[:1] * 2, some), (each[1:] * 2, some)):
        mixed = jax.make_mesh((2, 2), ("batch", "time"), axis_types=types)
        function = EACH["grad"]
        if names:
            function = jax.shard_map(function, mesh=mixed, in_specs=SPLIT, out_specs=SPLIT, axis_names=names)
        with jax.set_mesh(mixed):
            for spec in (SPLIT, P(("batch", "time"))) if names is None else (SPLIT,):
                given = [jax.device_put(t, NamedSharding(mixed, spec)) for t in (x, y, n)]
                for a, b in zip(jax.jit(function)(*given), want, strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
else:
    for specs in ((P(), SPLIT), (P(None, None, "time"), P()), (P(("batch", "time")), P(None, "time"))):
        for function in (EACH["grad"], EACH["divergence"]):
            _, given, ours = check(function, *specs)
            assert [jax.typeof(one) for one in ours] == [jax.typeof(one) for one in given[:len(ours)]]
print("as one device")
"""


@pytest.mark.skipif(not hasattr(jax.sharding, "reshard"), reason="JAX before 0.7 knows little of such meshes")
@pytest.mark.parametrize(
    "case",
    ["pair by pair", "all pairs", "of arrays made before", "axes of several kinds", "split in other ways"],
)
def test_explicit_axes(case):
    devices = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    environment = {**os.environ, **devices, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, "-c", PROGRAM, case]
    result = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=240)
    assert result.stdout.strip() == "as one device", result.stderr
