// Strided arrays of three dimensions: the layouts that tests put inputs and outputs in.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "memory.h"
#include "storage.h"

namespace test {

using Shape = std::array<int64_t, 3>;
using Strides = std::array<int64_t, 3>;

inline Strides contiguous(const Shape &s) { return {s[1] * s[2], s[2], 1}; }
// Dimensions from slow to fast in the opposite order.
inline Strides transposed(const Shape &s) { return {1, s[0], s[0] * s[1]}; }
// Time varies fastest within a pair: structure of arrays.
inline Strides feature_major(const Shape &s) { return {s[1] * s[2], 1, s[1]}; }
inline Strides reversed(const Shape &s) { return {-s[1] * s[2], -s[2], -1}; }
inline Strides reversed_time(const Shape &s) { return {s[1] * s[2], -s[2], 1}; }
// Gaps after every element, row and series.
inline Strides spaced(const Shape &s) {
  const int64_t row = 2 * s[2] + 3;
  return {row * s[1] + 5, row, 2};
}
// For inputs alone: one series, one time step or one feature for all.
inline Strides one_series(const Shape &s) { return {0, s[2], 1}; }
inline Strides one_step(const Shape &s) { return {s[2], 0, 1}; }
inline Strides one_feature(const Shape &s) { return {s[1], 1, 0}; }

struct Layout {
  const char *name = "contiguous";
  std::function<Strides(const Shape &)> strides = contiguous;
  bool repeats = false;  // elements share addresses
};

inline const Layout distinct_layouts[] = {{"contiguous", contiguous},       {"transposed", transposed},
                                          {"feature_major", feature_major}, {"reversed", reversed},
                                          {"reversed_time", reversed_time}, {"spaced", spaced}};
inline const Layout repeating_layouts[] = {
    {"one_series", one_series, true}, {"one_step", one_step, true}, {"one_feature", one_feature, true}};

// An array of dtype in device memory. What is not an element of it (gaps, guards) holds poison.
class Array {
 public:
  Array(const char *name, Memory &memory, sdtw_dtype dtype, const Shape &shape, const Layout &layout,
        unsigned char poison)
      : name_(name),
        dtype_(dtype),
        shape_(shape),
        strides_(layout.strides(shape)),
        poison_(poison),
        block_(memory, count() * size_of(dtype), poison) {}

  const Strides &strides() const { return strides_; }
  void *data() const { return static_cast<unsigned char *>(block_.data()) + first() * size_of(dtype_); }

  void upload(const std::vector<double> &values) {
    each([&](size_t k, unsigned char *element) { store(dtype_, element, values[k]); });
    block_.upload();
    sent_.assign(block_.image(), block_.image() + block_.bytes());
  }

  // The elements after a call that may write them, in contiguous order.
  std::vector<double> download() {
    block_.download();
    block_.check_guards(name_);
    std::vector<double> values(shape_[0] * shape_[1] * shape_[2]);
    each([&](size_t k, unsigned char *element) { values[k] = load(dtype_, element); });
    if (count() == static_cast<int64_t>(values.size())) return values;
    each([&](size_t, unsigned char *element) { std::memset(element, poison_, size_of(dtype_)); });
    for (size_t i = 0; i < block_.bytes(); ++i)
      if (block_.image()[i] != poison_) throw std::runtime_error(std::string(name_) + ": a gap was written");
    return values;
  }

  // Between these a call must not read gaps of an input in the host's memory, nor more than the first columns_read(s,
  // i) of row i of series s: AddressSanitizer sees to it.
  template <class Columns>
  void hide_unread(const Columns &columns_read) {
    if (!has_address_sanitizer()) return;
    const auto size = static_cast<int64_t>(size_of(dtype_));
    std::vector<unsigned char> used(block_.bytes(), 0);
    for (int64_t s = 0; s < shape_[0]; ++s)
      for (int64_t i = 0; i < shape_[1]; ++i) {
        unsigned char *const row = used.data() + (first() + s * strides_[0] + i * strides_[1]) * size;
        const int64_t columns = columns_read(s, i);
        if (strides_[2] == 1)
          std::fill_n(row, columns * size, 1);
        else
          for (int64_t j = 0; j < columns; ++j) std::fill_n(row + j * strides_[2] * size, size, 1);
      }
    hide_unused(block_.data(), used);
  }
  void reveal() { test::reveal(block_.data(), block_.bytes()); }

  // Throws if an input was written.
  void check_unchanged() {
    block_.download();
    block_.check_guards(name_);
    if (!std::equal(sent_.begin(), sent_.end(), block_.image()))
      throw std::runtime_error(std::string(name_) + ": the call wrote an input");
  }

 private:
  // Offset of element 0, 0, 0 from the lowest address, in elements, and elements from the lowest to the highest.
  int64_t first() const {
    int64_t offset = 0;
    for (int k = 0; k < 3; ++k)
      if (strides_[k] < 0) offset -= strides_[k] * (shape_[k] - 1);
    return offset;
  }
  int64_t count() const {
    int64_t last = 0;
    for (int k = 0; k < 3; ++k) {
      if (shape_[k] == 0) return 0;
      last += std::abs(strides_[k]) * (shape_[k] - 1);
    }
    return last + 1;
  }

  template <class F>
  void each(const F &f) {
    const auto size = static_cast<int64_t>(size_of(dtype_));
    unsigned char *const origin = block_.image() + first() * size;
    size_t k = 0;
    for (int64_t a = 0; a < shape_[0]; ++a)
      for (int64_t b = 0; b < shape_[1]; ++b) {
        const int64_t row = a * strides_[0] + b * strides_[1];
        for (int64_t c = 0; c < shape_[2]; ++c) f(k++, origin + (row + c * strides_[2]) * size);
      }
  }

  const char *name_;
  sdtw_dtype dtype_;
  Shape shape_;
  Strides strides_;
  unsigned char poison_;
  Block block_;
  std::vector<unsigned char> sent_;
};

}  // namespace test
