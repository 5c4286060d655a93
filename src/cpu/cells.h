// Cells between sweeps: boundaries of tiles as they are kept, cells that no path comes from, and what the last cell
// says.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "core/half.h"
#include "core/packed.h"
#include "cpu/kernels.h"

namespace sdtw::cpu {

// Tile boundaries in state. The float64 engine of a float32 problem has to do with the float engine's 8 bytes, into
// which the minimum's cells, one number as put_hard has them, go as they are.
template <class T, class In>
struct Boundary {
  using E = typename core::Exponent<T>::type;
  static constexpr bool packed = sizeof(T) == 8 && core::dtype_of<In> != SDTW_F64;
  static constexpr size_t size = packed ? sizeof(T) : sizeof(T) + sizeof(E);
  const bool hard;  // gamma = 0

  // count numbers, into / out of a block of capacity numbers at `data`, from its element `at` on.
  void save(std::byte *data, int64_t capacity, int64_t at, const T *m, const E *e, int64_t count) const {
    if constexpr (packed)
      if (!hard) {
        auto *const out = reinterpret_cast<uint64_t *>(data) + at;
        for (int64_t i = 0; i < count; ++i) out[i] = core::pack({m[i], e[i]});
        return;
      }
    std::memcpy(data + at * sizeof(T), m, count * sizeof(T));
    if (!packed) std::memcpy(data + capacity * sizeof(T) + at * sizeof(E), e, count * sizeof(E));
  }
  void load(const std::byte *data, int64_t capacity, int64_t at, T *m, E *e, int64_t count) const {
    if constexpr (packed)
      if (!hard) {
        const auto *const in = reinterpret_cast<const uint64_t *>(data) + at;
        for (int64_t i = 0; i < count; ++i) {
          const core::WideZ z = core::unpack(in[i]);
          m[i] = z.m;
          e[i] = z.e;
        }
        return;
      }
    std::memcpy(m, data + at * sizeof(T), count * sizeof(T));
    if (!packed) std::memcpy(e, data + capacity * sizeof(T) + at * sizeof(E), count * sizeof(E));
  }
};

// Cells that no path comes from.
template <class T>
void fill_forbidden(T *m, typename core::Exponent<T>::type *e, int64_t count, bool hard = false) {
  if (hard) {
    for (int64_t i = 0; i < count; ++i) put_hard(std::numeric_limits<double>::infinity(), m + i, e + i);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    m[i] = 1;
    e[i] = core::Exponent<T>::forbidden;
  }
}

// R / gamma = -log(m 2^e): finite wherever there is a path, even if R is beyond a double's range.
template <class T>
double value_of(T m, typename core::Exponent<T>::type e) {
  if (double(e) < -core::Exponent<T>::limit) return std::numeric_limits<double>::infinity();
  return -(std::log2(double(m)) + double(e)) * core::ln_2;
}

}  // namespace sdtw::cpu
