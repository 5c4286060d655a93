// Step penalties as the float engine takes them, on the host.
#pragma once

#include <cmath>

#include "cuda/sweep/cell.cuh"

namespace sdtw::cuda::general {

// A step with a penalty of p bits multiplies a cell by 2^-p. Rounded to a float32 number this factor has an error, the
// same in every cell, which the steps of a path add up. But every path of a pair of lengths n and m has n - 1 steps
// that are diagonal or vertical, and m - 1 that are diagonal or horizontal. With v bits more for a vertical step, h
// more for a horizontal one and v + h more for a diagonal one all paths cost v (n - 1) + h (m - 1) bits more, and E is
// the same. So v and h are chosen that make float32 numbers of all three factors: those of vertical and horizontal
// steps are rounded, and of the numbers nearby those are taken that leave the diagonal's nearest to one. (CPUs have the
// factor less one instead, which takes one instruction more for each step.)
struct Penalties {
  double bits[transitions];
  double more_of_rows = 0, more_of_columns = 0;  // v, h

  explicit Penalties(const double (&exact)[transitions]) {
    // Of larger ones not all bits of a factor are known, and its error is nothing beside what they cost.
    constexpr double largest = 0x1p20;
    bool small = true;
    for (int way = 0; way < transitions; way++) bits[way] = exact[way], small &= std::abs(exact[way]) < largest;
    if (!small) return;
    double whole[transitions], rest[transitions];
    for (int way = 0; way < transitions; way++)
      whole[way] = std::nearbyint(exact[way]), rest[way] = exact[way] - whole[way];
    const auto vertical_factor = static_cast<float>(std::exp2(-rest[vertical])),
               horizontal_factor = static_cast<float>(std::exp2(-rest[horizontal]));
    const double diagonal_factor = std::exp2(rest[vertical] + rest[horizontal] - rest[diagonal]);
    // The nearest ones come first, and no later ones are as good as those that are exact: whole bits stay as they are.
    constexpr float ulp = 0x1p-23f;
    double factor[transitions] = {}, least = HUGE_VAL;
    for (const int i : {0, 1, -1, 2, -2, 3, -3, 4, -4})
      for (const int j : {0, 1, -1, 2, -2, 3, -3, 4, -4}) {
        const float v = vertical_factor + ulp * i, h = horizontal_factor + ulp * j;
        const double wanted = diagonal_factor * (static_cast<double>(v) * h);
        const auto d = static_cast<float>(wanted);
        const double error = std::abs(d / wanted - 1);
        if (error < least) least = error, factor[diagonal] = d, factor[vertical] = v, factor[horizontal] = h;
      }
    for (int way = 0; way < transitions; way++) bits[way] = whole[way] - std::log2(factor[way]);
    more_of_rows = -std::log2(factor[vertical]) - rest[vertical];
    more_of_columns = -std::log2(factor[horizontal]) - rest[horizontal];
  }
};

}  // namespace sdtw::cuda::general
