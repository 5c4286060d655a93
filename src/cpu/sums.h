// Gradients of all pairs: what each pair adds to those of its two series, in the order of pairs, whichever thread
// computes them.
#pragma once

#include "cpu/pair.h"
#include "cpu/parallel.h"

namespace sdtw::cpu {

// One side's sums: [batch][steps][features], contiguous.
struct SeriesSums {
  double *data;  // null: not wanted
  int64_t batch, steps, features;

  int64_t each() const { return steps * features; }
  void clear() const {
    if (data) std::fill(data, data + batch * each(), 0.);
  }
  // Adds the gradient of `length` time steps to those of a series.
  template <class T>
  void add(int64_t series, const T *gradient, int64_t length) const {
    if (!data) return;
    double *const to = data + series * each();
    for (int64_t i = 0; i < length * features; ++i) to[i] += double(gradient[i]);
  }
  void spoil(int64_t series) const {
    if (data) std::fill(data + series * each(), data + (series + 1) * each(), std::numeric_limits<double>::quiet_NaN());
  }
  template <class In>
  void write(const sdtw_out &out) const {
    if (!out.data) return;
    using Number = std::conditional_t<core::dtype_of<In> == SDTW_F64, double, float>;
    const double *from = data;
    for (int64_t k = 0; k < batch; ++k)
      for (int64_t i = 0; i < steps; ++i)
        for (int64_t f = 0; f < features; ++f)
          static_cast<In *>(out.data)[k * out.stride[0] + i * out.stride[1] + f * out.stride[2]] =
              In(static_cast<Number>(*from++));
  }
};

// Of both sides; with SDTW_SYMMETRIC they are the same.
struct GradientSums {
  SeriesSums x, y;
  std::atomic<int64_t> units_added{0};

  // Calls add() once all units before this one have been added: threads take them in that order.
  template <class Add>
  void in_turn(int64_t unit, Add &&add) {
    wait_until(units_added, unit);
    add();
    units_added.store(unit + 1, std::memory_order_release);
  }
};

}  // namespace sdtw::cpu
