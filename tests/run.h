// How tests compute: no alignment goes unchecked, whatever else a test asks of it.
#pragma once

#include "check_alignment.h"

namespace test {

inline Result run(const Case &c) {
  Result result = compute(c);
  for (int64_t b = 0; b < c.batch(); ++b)
    if (const std::string wrong = check_alignment(c, result, b); !wrong.empty())
      throw std::runtime_error(wrong + ", of pair " + std::to_string(b) + " of " + describe(c));
  return result;
}

}  // namespace test
