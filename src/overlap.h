// Whether two strided arrays share memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace sdtw {

// A strided array as bytes in memory. Strides have no sign here and dimensions no order: all that counts is where it
// begins and in which strides it goes on from there.
struct Stride {
  uintptr_t bytes, count;
};
struct Extent {
  size_t element;
  uintptr_t begin = 0, end = 0;  // it lies in [begin, end)
  Stride strides[3] = {};        // a dimension of one element makes none
};

// Two elements share memory if the distance between them, v, is of less than an element. Distances are that of the
// arrays' beginnings plus multiples of strides, and are searched from the largest stride to the smallest: an index that
// leads so far away that the smaller strides do not lead back is none, nor is one after which their greatest common
// divisor leaves every distance an element or more. For arrays whose strides go past what the smaller ones reach, as
// those of any output do, this leaves two or three indices a stride and the answer is exact; where there are too many
// to look at, the arrays are taken to overlap.
class Overlap {
 public:
  static bool exists(const Extent &a, const Extent &b) {
    if (a.end <= b.begin || b.end <= a.begin) return false;
    if (std::max(a.end - a.begin, b.end - b.begin) > PTRDIFF_MAX / 4) return true;
    return Overlap(a, b).reaches(0, static_cast<int64_t>(b.begin - a.begin));
  }

 private:
  struct Dimension {
    int64_t stride, least, most;  // indices
    int64_t divisor;              // of this stride and the smaller ones
    int64_t low, high;            // what the smaller ones reach
  };

  Overlap(const Extent &a, const Extent &b)
      : before_(-static_cast<int64_t>(b.element)), behind_(static_cast<int64_t>(a.element)) {
    for (const Stride &s : a.strides) add(s, -1);
    for (const Stride &s : b.strides) add(s, 1);
    int64_t divisor = 0, low = 0, high = 0;
    for (int k = count_ - 1; k >= 0; --k) {
      Dimension &d = dimensions_[k];
      d.low = low, d.high = high;
      d.divisor = divisor = std::gcd(divisor, d.stride);
      low += d.stride * d.least, high += d.stride * d.most;
    }
  }

  // Dimensions are kept from the largest stride to the smallest; strides of the same size are one dimension.
  void add(const Stride &s, int64_t sign) {
    if (s.bytes == 0 || s.count == 0) return;
    const auto stride = static_cast<int64_t>(s.bytes), count = static_cast<int64_t>(s.count);
    int k = 0;
    while (k < count_ && dimensions_[k].stride > stride) ++k;
    if (k == count_ || dimensions_[k].stride != stride) {
      for (int i = count_++; i > k; --i) dimensions_[i] = dimensions_[i - 1];
      dimensions_[k] = {stride, 0, 0, 0, 0, 0};
    }
    (sign < 0 ? dimensions_[k].least : dimensions_[k].most) += sign * count;
  }

  static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

  // Whether strides from the k-th on lead from distance v to one between before_ and behind_.
  bool reaches(int k, int64_t v) {
    if (--budget_ < 0) return true;
    if (k == count_) return before_ < v && v < behind_;
    const Dimension &d = dimensions_[k];
    const int64_t rest = v - floor_div(v, d.divisor) * d.divisor;
    if (rest >= behind_ && rest - d.divisor <= before_) return false;
    const int64_t first = std::max(d.least, floor_div(before_ - d.high - v, d.stride) + 1);
    const int64_t last = std::min(d.most, floor_div(behind_ - d.low - v - 1, d.stride));
    for (int64_t i = first; i <= last; ++i)
      if (reaches(k + 1, v + i * d.stride)) return true;
    return false;
  }

  const int64_t before_, behind_;
  Dimension dimensions_[6];
  int count_ = 0;
  int budget_ = 1 << 16;
};

}  // namespace sdtw
