// Random problems: every dimension of a Case drawn at once, from a seed.
#pragma once

#include "inputs.h"

namespace test {

// How large a drawn problem may be: pairs and steps of a small batch and of a large one, features of most and of a few.
struct Extent {
  int64_t few_pairs, long_steps, many_pairs, short_steps, features, many_features;
};

template <class T, size_t count>
const T &one_of(Random &random, const T (&choices)[count]) {
  return choices[random.integer(0, count - 1)];
}

Case draw(uint64_t seed, const Extent &extent);

}  // namespace test
