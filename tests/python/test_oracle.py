# The oracle against the definition: all alignments of tiny pairs, enumerated.
import numpy as np
import pytest

import oracle


@pytest.mark.parametrize("gamma", [0.05, 1.0, 20.0])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 4), (3, 3), (5, 4), (4, 6)])
def test_oracle_is_the_definition(n, m, gamma, rng):
    cost = rng.normal(size=(n, m)) ** 2
    value, alignment = oracle.enumerate_alignments(cost, gamma)
    assert oracle.accumulate(cost, gamma)[-1, -1] == pytest.approx(value, rel=1e-13, abs=1e-13)
    np.testing.assert_allclose(oracle.expected_alignment(cost, gamma), alignment, rtol=0, atol=1e-13)


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
