// Series and costs of every kind that users have, and that have found faults: one kind a pair.
#pragma once

#include "draw.h"
#include "oracle_metrics.h"

namespace test {

enum class Data {
  noise,      // independent normal values
  walk,       // their sums
  constant,   // one value for a whole series
  steps,      // constant for a while
  smooth,     // waves
  spikes,     // noise, and a few time steps 1e2, 1e4 or 1e6 times as large
  equal,      // y is x, resampled
  quantised,  // noise on a coarse grid
  flat,       // noise with a long stretch in which nothing happens
  integers,   // small whole numbers: costs are exact, and often equal
  offset,     // noise far from 0, in both series at the same place
  walls,      // of given costs: walls of infinity, and one cheap path through them; of series noise
  pulses,     // noise or one value, and a few stretches of one to eight steps that are up to 1e4 away from it
  uneven,     // noise, of which each feature has a scale of its own, 1e-3 to 1e3, in both series
  padded,     // noise that ends in zeros
  near,       // y is x, resampled, with a little noise, 1e-7 to 1e-1 of its size, and x noise, a walk or smooth
  periodic,   // one pattern of 1 to 12 steps over and over again, in both series, from different steps of it on
  shifted,    // y is x, resampled, and a number 1e-6 to 1 more, and x noise
  count
};
inline const char *const data_names[] = {"noise",  "walk",      "constant", "steps",    "smooth",   "spikes",
                                         "equal",  "quantised", "flat",     "integers", "offset",   "walls",
                                         "pulses", "uneven",    "padded",   "near",     "periodic", "shifted"};
// Those that lines with data=mixed draw from: one more would give each of these other data.
constexpr auto mixed_kinds = static_cast<int64_t>(Data::pulses);

// x [n, features] and y [m, features] of one pair, as float32 can hold them.
struct SeriesPair {
  std::vector<double> x, y;
};
SeriesPair series_pair(Random &random, Data data, int64_t n, int64_t m, int64_t features, double scale);

// Costs [n, m] of one pair: distances of such series, or what only given costs can be: equal ones a little below or
// above a half of the unit in which costs are split, and negative ones.
std::vector<double> costs(Random &random, Data data, int64_t n, int64_t m, double scale, double gamma);

}  // namespace test
