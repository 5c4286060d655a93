// GPU memory for builds without CUDA: there is none, and no test asks for it.
#include "memory.h"

test::Memory &test::cuda_memory() { throw std::logic_error("this build of the tests has no CUDA"); }
