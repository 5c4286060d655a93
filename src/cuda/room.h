// How much shared memory a block may have, and for which GPUs a kernel is compiled: those alone that can be asked to
// run it, since each takes seconds of compile time and room in the library. Elsewhere it only traps.
#pragma once

namespace sdtw::cuda {

// GPUs by the KB of shared memory of a block: of compute capability 7.5; of 8.6, 8.9 and 12; of 8.0; of 9.0 to 11.
// Bits, since a kernel may be for several of them.
enum Room : unsigned { room_of_64 = 1, room_of_99 = 2, room_of_163 = 4, room_of_227 = 8, any_room = 15 };

constexpr Room operator|(Room a, Room b) { return static_cast<Room>(static_cast<unsigned>(a) | b); }

// Those that have kernels with costs in integers (costs/slice_costs.cuh).
constexpr Room rooms_of_slices = room_of_99 | room_of_163 | room_of_227;

// Those that have kernels of unit points.
constexpr Room rooms_of_units = room_of_163 | room_of_227;

// Those that have kernels of pairs with a corridor, if their float64 is not slow: elsewhere the general engine does.
constexpr Room rooms_of_corridor = room_of_163 | room_of_227;

constexpr Room room_of_bytes(int bytes) {
  return bytes < 90 * 1024    ? room_of_64
         : bytes < 128 * 1024 ? room_of_99
         : bytes < 200 * 1024 ? room_of_163
                              : room_of_227;
}

// The GPUs that code for a compute capability, times ten, serves. That for 8.0 is what later ones run for which there
// is no other. On the emulator, and in builds that pose as smaller GPUs, all code serves all.
constexpr Room rooms_of_code([[maybe_unused]] int capability) {
#if defined(__CUDACC__) && !defined(SDTW_CUDA_SHARED_MEMORY)
  return capability < 80    ? room_of_64
         : capability < 90  ? room_of_99 | room_of_163 | room_of_227
         : capability < 120 ? room_of_227
                            : room_of_99;
#else
  return any_room;
#endif
}

// Whether a kernel for these GPUs is in the code that is being compiled.
#ifdef __CUDA_ARCH__
template <Room rooms>
constexpr bool is_compiled = (rooms & rooms_of_code(__CUDA_ARCH__ / 10)) != 0;
#else
template <Room>
constexpr bool is_compiled = true;
#endif

// Whether code for a compute capability does without float64 where float32 problems take time: elsewhere it is half as
// fast as float32, there a 32nd or a 64th. SDTW_CUDA_WITHOUT_FLOAT64: in a build for tests, whatever the GPU.
constexpr bool code_avoids_float64([[maybe_unused]] int capability) {
#ifdef SDTW_CUDA_WITHOUT_FLOAT64
  return SDTW_CUDA_WITHOUT_FLOAT64;
#else
  return capability != 80 && capability != 90 && capability != 100;
#endif
}
#ifdef __CUDA_ARCH__
constexpr bool avoids_float64 = code_avoids_float64(__CUDA_ARCH__ / 10);
#else
constexpr bool avoids_float64 = code_avoids_float64(90);
#endif

constexpr bool compiles_corridors = is_compiled<rooms_of_corridor> && !avoids_float64;

}  // namespace sdtw::cuda
