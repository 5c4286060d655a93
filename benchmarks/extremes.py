"""The extreme cases of accuracy.py: inputs at which rounding errors add up, cancel or have no room.

EXTREMES has (name, case, data) each; all of a name share a line of the table in docs/numerics.md.
"""

import numpy as np

import cases

LN_2 = np.log(2)  # costs of t ln(2) at gamma 1 are t = D log2(e) / gamma

EQUAL = (
    (1, 300, 0.166383475),
    (3, 1000, 0.00913011562),
    (10, 10_000, 0.0411364362),
    (20, 100_000, 0.0203397162),
)
OUTLIERS = (  # (B, N, M, d), gamma, scale of all inputs
    ((21, 31, 229, 13), 0.0032, 0.09),
    ((2, 661, 65, 128), 1.0, 1.0),
    ((10, 130, 65, 64), 1.0, 1.0),
    ((1, 417, 689, 128), 1.0, 1.0),
    ((19, 8, 141, 100), 1.0, 1.0),
    ((22, 257, 100, 40), 1.0, 1.0),
)
# What is nearest to a kind's data in the words of a problem's line, where that is not noise.
WORDS = {
    "equal costs": {"data": "constant"},
    "long thin pairs": {"data": "smooth"},
    "zeros": {"scale": 0},
    "a point": {"data": "spikes"},
    "equal given costs": {"data": "constant"},
    "a series with itself": {"data": "equal"},
}
MOST_CELLS = 4_000_000  # of a pair whose alignment is looked at


def words_of(name):
    return next((words for kind, words in WORDS.items() if name.startswith(kind)), {})


def series(name, x, y, gamma=1.0):
    x, y = (np.ascontiguousarray(a, dtype=np.float32) for a in (x, y))
    case = cases.Case(len(x), x.shape[1], y.shape[1], x.shape[2], gamma=gamma)
    return name, case, cases.Data(x, y, None, None, None, x.shape[0] * x.shape[1] * y.shape[1])


def given(name, shape, cost, gamma=1.0):
    use, cost = f"all costs {cost:.6g}", np.full(shape, cost, dtype=np.float32)
    case = cases.Case(*shape, 0, metric="precomputed", gamma=gamma, use=use)
    return name, case, cases.Data(None, None, cost, None, None, cost.size)


def constant(name, n, m, value):
    """Zeros beside a constant: all costs are value^2."""
    return series(name, np.zeros((1, n, 1)), np.full((1, m, 1), value))


def many_features(rng):
    def draw(d, n, make, gamma):
        return series("many features", make((4, n, d)), make((4, n, d)), gamma)

    yield draw(512, 200, rng.random, 1.0)
    yield draw(768, 200, lambda shape: np.maximum(rng.standard_normal(shape), 0), 10.0)
    yield draw(128, 500, rng.standard_normal, 10.0)
    for d in (300, 1000):
        x, y = (rng.standard_normal((1000, 1, d)) for _ in range(2))
        yield series("many features, one step", x, y)


def outliers(rng):
    """Noise in which one point of each x is so many times as large as the others."""
    for factor in (100, 10_000, 1_000_000):
        for (batch, n, m, d), gamma, scale in OUTLIERS:
            x, y = (scale * rng.standard_normal((batch, length, d)) for length in (n, m))
            x[np.arange(batch), rng.integers(n, size=batch)] *= factor
            yield series(f"a point {factor} times as large", x, y, gamma)


def extremes():
    rng = np.random.default_rng(1)
    for n, m, value in EQUAL:
        yield constant("equal costs", n, m, value)
    for m in (10_000, 100_000):
        yield constant("long thin pairs", 1, m, 0.7)
    for n, m in ((4, 1_000_000), (64, 100_000)):
        wave = 2 + np.sin(2 * np.pi / 1000 * np.arange(m))
        yield series("long thin pairs", np.zeros((1, n, 1)), wave[None, :, None])
    for n, m in ((300, 2), (2, 100_000)):
        yield constant("zeros", n, m, 0)
    yield from many_features(rng)
    yield from outliers(rng)
    yield given("equal given costs", (1, 128, 16), 2.6488292495012282, 0.00098)
    for n in (1000, 386):
        for k in (3, 100):
            yield given("equal given costs", (1, n, 44), (k + 0.48) * LN_2)
    for n in (257, 700, 2000):
        for m in (44, 48, 76, 80, 108, 112, 144):
            x, y = (rng.standard_normal((32, length, 16)) for length in (n, m))
            yield series("noise beside short noise", x, y, 0.1)
    x = rng.standard_normal((16, 1000, 8))
    yield series("a series with itself", x, x)
