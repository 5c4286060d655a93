#include "run.h"

namespace test {

Result run(const Case &c) {
  Result result = compute(c);
  for (int64_t b = 0; b < c.batch(); ++b)
    if (const std::string wrong = check_alignment(c, result, b); !wrong.empty())
      throw std::runtime_error(wrong + ", of pair " + std::to_string(b) + " of " + describe(c));
  return result;
}

}  // namespace test
