# The oracle against the definition: all alignments of tiny pairs, enumerated.
import numpy as np
import pytest

import oracle
from oracle import Rules

RULES = [
    Rules(),
    Rules(band="absolute", radius=1.0),  # without a path where one series is longer by two or more
    Rules(band="sakoe_chiba", radius=1.0),
    Rules(band="itakura", radius=2.0),
    Rules(step_weights=(2.0, 1.0, 1.0)),
    Rules(step_weights=(1.0, 0.5, 0.25), step_penalties=(0.25, -0.5, 1.0)),
]


@pytest.mark.parametrize("gamma", [0.0, 0.05, 1.0, 20.0])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 4), (3, 3), (5, 4), (4, 6)])
def test_oracle_is_the_definition(n, m, rules, gamma, rng):
    cost, rules = rng.normal(size=(n, m)) ** 2, rules._replace(gamma=gamma)
    solved, defined = oracle.solve(cost, rules), oracle.enumerate_alignments(cost, rules)
    for ours, expected in zip(solved, defined, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-13, atol=1e-13)


def test_number_of_alignments_is_delannoys():
    assert [len(list(oracle.alignments(n, n))) for n in (1, 2, 3, 4)] == [1, 3, 13, 63]


def test_oracle_gradients_are_finite_differences(rng):
    x, y = rng.normal(size=(4, 2)), rng.normal(size=(5, 2))
    pair = oracle.soft_dtw(x, y, 0.5)
    step = 1e-6
    for which, gradient in ((0, pair.grad_x), (1, pair.grad_y)):
        for index in np.ndindex(gradient.shape):
            values = []
            for sign in (1, -1):
                moved = [x.copy(), y.copy()]
                moved[which][index] += sign * step
                values.append(oracle.soft_dtw(*moved, 0.5).value)
            assert gradient[index] == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-7)
