# Data as lines of problems have them: the numbers that tests/inputs.h and tests/data.h draw from a seed, of
# the kinds noise and integers, so that what fails in Python can be computed by sdtw_differential --problem.
from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from libsdtw import _core

METRICS = list(_core.METRICS)
SERIES_METRICS = [metric for metric in METRICS if metric != "precomputed"]
DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
MASK = 2**64 - 1


class Random:
    """Random of tests/inputs.h: the 64-bit Mersenne twister (Matsumoto and Nishimura 2000)."""

    def __init__(self, seed: int) -> None:
        self._state = [seed & MASK]
        for i in range(1, 312):
            last = self._state[-1]
            self._state.append((6364136223846793005 * (last ^ (last >> 62)) + i) & MASK)
        self._next = 312

    def bits(self) -> int:
        if self._next == 312:
            self._twist()
        z = self._state[self._next]
        self._next += 1
        z ^= (z >> 29) & 0x5555555555555555
        z ^= (z << 17) & 0x71D67FFFEDA60000
        z ^= (z << 37) & 0xFFF7EEE000000000
        return z ^ (z >> 43)

    def _twist(self) -> None:
        state = self._state
        for i in range(312):
            both = (state[i] & ~0x7FFFFFFF) | (state[(i + 1) % 312] & 0x7FFFFFFF)
            state[i] = state[(i + 156) % 312] ^ (both >> 1) ^ (0xB5026F5AA96619E9 if both & 1 else 0)
        self._next = 0

    def uniform(self) -> float:
        return (self.bits() >> 11) * 2.0**-53

    def integer(self, low: int, high: int) -> int:
        return low + self.bits() % (high - low + 1)

    def normal(self) -> float:
        radius = math.sqrt(-2 * math.log(1 - self.uniform()))
        return radius * math.cos(2 * math.pi * self.uniform())


def rounded(value: float) -> float:
    """To a whole number, halves away from 0, as C rounds."""
    return math.copysign(math.floor(abs(value) + 0.5), value)


def one_series(random: Random, data: str, steps: int, features: int) -> np.ndarray:
    random.integer(random.integer(0, steps - 1), steps - 1)  # the flat stretch of another kind of data
    values = [random.normal() for _ in range(steps * features)]
    if data == "integers":
        values = [rounded(2 * value) for value in values]
    return np.reshape(values, (steps, features)).astype(np.float32)


def one_cost(random: Random, data: str, n: int, m: int) -> np.ndarray:
    kind = random.uniform()
    if data == "integers":
        return np.reshape([random.integer(0, 8) for _ in range(n * m)], (n, m)).astype(np.float32)
    if kind < 0.2:
        return np.reshape([random.normal() for _ in range(n * m)], (n, m)).astype(np.float32)
    x, y = (one_series(random, data, steps, 2).astype(np.float64) for steps in (n, m))
    return ((x[:, None] - y[None]) ** 2).sum(-1).astype(np.float32)


class Drawn:
    """x and y in float32, or costs in x; lengths of x and y from `least` on, or none."""

    def __init__(
        self, seed: int, data: str, batch: tuple[int, int], shape: tuple[int, int, int], pairs: str,
        least: int | None = None,
    ) -> None:  # fmt: skip
        random, (n, m, features) = Random(seed), shape
        x, y = [], []
        for _ in range(max(batch)):
            if features == 0:
                x.append(one_cost(random, data, n, m))
                continue
            x.append(one_series(random, data, n, features))
            y.append(one_series(random, data, m, features))
        self.x = np.stack(x[: batch[0]])
        self.y = np.stack(y[: batch[1]]) if y and pairs != "symmetric" else None
        self.lengths: dict[str, np.ndarray] = {}
        if least is not None:
            self._draw_lengths(random, batch, n, m, pairs, least)

    def _draw_lengths(
        self, random: Random, batch: tuple[int, int], n: int, m: int, pairs: str, least: int
    ) -> None:
        of_x, of_y = [], []
        last = batch[1] - 1
        for b in range(max(batch)):
            if b < batch[0]:
                of_x.append(n if b == 0 else random.integer(least, n))
            if b < batch[1] and pairs != "symmetric":
                of_y.append(m if b == last else random.integer(least, m))
        self.lengths["x_lengths"] = np.array(of_x)
        if of_y:
            self.lengths["y_lengths"] = np.array(of_y)
