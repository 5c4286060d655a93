// E as a flow: how much there is of it, whether it is worth following, and how what rounding takes of it is given back.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/numbers.h"
#include "cpu/kernels.h"

namespace sdtw::cpu {

template <class T>
constexpr T least_inflow = static_cast<T>(core::least_inflow(sizeof(T) == 8));

// Whether any of count values is worth sweeping a tile for.
template <class T>
bool any_live(const T *values, int64_t count) {
  T largest[max_width] = {};  // in columns, for the sake of vectors
  int64_t i = 0;
  for (; i + max_width <= count; i += max_width)
    for (int l = 0; l < max_width; ++l) largest[l] = values[i + l] > largest[l] ? values[i + l] : largest[l];
  for (int64_t l = 0; i + l < count; ++l) largest[l] = values[i + l] > largest[l] ? values[i + l] : largest[l];
  bool live = false;
  for (const T l : largest) live |= l >= least_inflow<T>;
  return live;
}

// How many of `count` values there are up to the last one that is.
template <class T>
int64_t live_part(const T *values, int64_t count) {
  while (count > 0 && !(values[count - 1] >= least_inflow<T>)) --count;
  return count;
}

// What a flow is short of another, relative to itself.
inline double lack_of_flow(double of, double other) { return of > 0 ? (other - of) / of : 0; }

// E is a unit of flow from the last cell to the first: as much leaves a tile as has entered it, but for rounding, which
// over thousands of steps would show in E[0,0] = 1. So outflow is scaled to inflow, tile by tile or more often, and
// lane by lane where lanes are pairs. A correction of less than this, the last bit of T, would be rounded away: it
// waits for more.
template <class T>
constexpr double least_correction = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53;

// Of lanes that are pairs: the factors that scale their outflow are 1 + excess; false if all are 1. lost: what each has
// lost before, relative to what flows, and has not got back.
template <class T>
bool settle(const double *inflow, const double *outflow, int lanes, double *lost, T *excess) {
  bool any = false;
  for (int l = 0; l < lanes; ++l) {
    lost[l] += lack_of_flow(outflow[l], inflow[l]);
    const bool mends = std::abs(lost[l]) >= least_correction<T>;
    excess[l] = mends ? T(lost[l]) : T(0);
    if (mends) lost[l] = 0;
    any |= mends;
  }
  return any;
}

}  // namespace sdtw::cpu
