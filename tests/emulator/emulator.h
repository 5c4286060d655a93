// Runs CUDA kernels on the CPU, so that their logic is tested where there is no GPU: every thread of a grid is a fiber
// with a stack of its own, and what threads of a warp or a block do together is a meeting of fibers. The kernels are
// compiled as C++ with the headers of this folder in place of CUDA's (include/) and of cuda/ptx.cuh.
//
// It finds wrong arithmetic, wrong indices (with AddressSanitizer), meetings that not all threads come to, and waits
// that never end. Between two meetings, fibers of a warp run in random order and warps take turns at random; a seed
// repeats it (SDTW_EMULATOR_SEED). SDTW_EMULATOR_SLOW_FLOAT64 makes it a GPU with little float64. It does not find what
// only weak memory order brings about, and times mean nothing.
//
// A launch runs to its end before it returns. Each host thread has an emulated GPU of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>

namespace emulator {

struct Index {
  unsigned x, y, z;
};

// What a running thread asks: where it is.
struct Position {
  Index thread, block, block_size, grid;
};
const Position &position();

struct Launch {
  Index grid, block;
  size_t shared_memory = 0;
  const char *name = "kernel";
  std::function<void()> body;  // what every thread does
};
void run(const Launch &launch);

// The GPU that there seems to be: small, so that blocks wait for each other's tickets. SDTW_EMULATOR_SHARED_MEMORY:
// bytes that a block may have.
constexpr int warp_size = 32, multiprocessors = 3;
inline const size_t shared_memory_of_block = [] {
  const char *given = std::getenv("SDTW_EMULATOR_SHARED_MEMORY");
  return given ? static_cast<size_t>(std::atoll(given)) : 232448;
}();
inline const size_t shared_memory_of_multiprocessor = shared_memory_of_block + 1024;
int blocks_per_multiprocessor(int threads, size_t shared_memory);

// What the threads of a warp do together. All threads of the mask that have not ended must come, with the same mask and
// the same operation; anything else ends the program with a message.
uint64_t exchange(unsigned mask, uint64_t value, int source_lane);  // the value of that lane
unsigned ballot(unsigned mask, bool predicate);
unsigned add_up(unsigned mask, unsigned value);
void meet_in_warp(unsigned mask);

// The barrier `id` of the block: waits until `threads` of its threads have come; 0: all that have not ended. They must
// come from one place of the source, if it is given.
void meet_in_block(int id, int threads, const char *place = nullptr);

// Copies of this thread that need not be there before it waits for them: they are made then.
void copy_later(void *to, const void *from, size_t bytes, size_t zeros);
void commit_copies();
void wait_for_copies(int prior);

// Lets others run: in every loop that waits for what another warp writes.
void give_way();
void may_give_way();  // or not, at random

// Shared memory of the running block: the launch's, and objects by their address of identity.
void *shared_memory();
void *shared_object(const void *identity, size_t bytes);

[[noreturn]] void stop(const char *message);

}  // namespace emulator
