// The bytes of one execution, taken from the front. Behind the last one there are zeros, so that every string of bytes
// is a whole call, and short ones are plain calls.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace test {

class Bytes {
 public:
  Bytes(const uint8_t *data, size_t size) : next_(data), end_(data + size) {}

  uint8_t byte() { return next_ < end_ ? *next_++ : 0; }
  bool empty() const { return next_ == end_; }
  // true about once in `rarely` random bytes, and never for 0.
  bool seldom(int rarely) { return byte() >= 256 - 256 / rarely; }
  uint64_t word(int count) {
    uint64_t bits = 0;
    for (int k = 0; k < count; ++k) bits |= uint64_t(byte()) << (8 * k);
    return bits;
  }
  int64_t below(int64_t count) { return static_cast<int64_t>(word(count > 256 ? 2 : 1)) % count; }
  int64_t integer(int64_t low, int64_t high) { return low + below(high - low + 1); }
  // In [0, 1).
  double fraction() { return static_cast<double>(word(2)) / 65536; }

  template <class T, size_t count>
  const T &one_of(const T (&choices)[count]) {
    return choices[below(count)];
  }

  double special_double() {
    using limits = std::numeric_limits<double>;
    static const double values[] = {0.0,
                                    1.0,
                                    -0.0,
                                    0.5,
                                    -1.0,
                                    2.0,
                                    limits::quiet_NaN(),
                                    limits::infinity(),
                                    -HUGE_VAL,
                                    1e-300,
                                    1e-200,
                                    1e-38,
                                    1e-45,
                                    5e-324,
                                    1e-10,
                                    1e10,
                                    1e15,
                                    3.4e38,
                                    1e100,
                                    1e300,
                                    -1e300,
                                    1.0 + 1e-15,
                                    limits::max(),
                                    limits::min(),
                                    -1e-300,
                                    0x1p-149,
                                    1e-190,
                                    1e-210};
    const int64_t kind = below(std::size(values) + 1);
    if (kind < static_cast<int64_t>(std::size(values))) return values[kind];
    const uint64_t bits = word(8);
    double any;
    std::memcpy(&any, &bits, sizeof any);
    return any;
  }

  int64_t special_integer() {
    static const int64_t values[] = {0,
                                     1,
                                     -1,
                                     2,
                                     3,
                                     4,
                                     5,
                                     6,
                                     7,
                                     8,
                                     -2,
                                     -3,
                                     -4,
                                     -8,
                                     12,
                                     16,
                                     24,
                                     31,
                                     32,
                                     33,
                                     64,
                                     4096,
                                     4097,
                                     int64_t(1) << 30,
                                     (int64_t(1) << 30) + 1,
                                     INT32_MAX,
                                     INT32_MIN,
                                     int64_t(1) << 31,
                                     int64_t(1) << 32,
                                     int64_t(1) << 59,
                                     int64_t(1) << 61,
                                     INT64_MAX,
                                     INT64_MAX / 2,
                                     INT64_MIN,
                                     INT64_MIN + 1};
    const int64_t kind = below(std::size(values) + 2);
    if (kind < static_cast<int64_t>(std::size(values))) return values[kind];
    return kind % 2 ? static_cast<int8_t>(byte()) : static_cast<int64_t>(word(8));
  }

 private:
  const uint8_t *next_, *end_;
};

}  // namespace test
