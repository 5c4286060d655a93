// Every operation of the vectors of each instruction set that the library is built with, against plain C++.
#pragma once

#include <string>
#include <vector>

namespace test {

using Failures = std::vector<std::string>;
Failures check_baseline_vectors();
Failures check_avx2_vectors();
Failures check_avx512_vectors();
Failures check_neon_vectors();

}  // namespace test
