/* sdtw.h: soft Dynamic Time Warping, its gradients and expected alignments, on CPUs and NVIDIA GPUs.
 *
 * SPDX-License-Identifier: MIT
 *
 * Plain C99 (and C++17), no CUDA include. The library allocates nothing, synchronises nothing, prints
 * nothing and keeps no state between calls: the caller owns every buffer and the CUDA stream.
 *
 * What is computed. With the cost D[i,j] = metric(x_i, y_j), 0 <= i < n, 0 <= j < m, and R = 0 on the corner of the
 * padded border, +infinity on the rest of it,
 *
 *   R[i,j] = softmin( w_d D[i,j] + p_d + R[i-1,j-1],  w_v D[i,j] + p_v + R[i-1,j],  w_h D[i,j] + p_h + R[i,j-1] )
 *   softmin(a) = -gamma log sum_k exp(-a_k / gamma)        (gamma = 0: the minimum)
 *
 * (Cuturi and Blondel, Soft-DTW: a Differentiable Loss Function for Time-Series, ICML 2017, equation 1 and
 * Algorithm 1.) The value is R[n-1,m-1]. The expected alignment E[i,j] is the probability that a path visits the cell,
 * and G[i,j] = d value / d D[i,j] the expected weight of its step there; with unit weights both are what Algorithm 2
 * computes.
 *
 * How a call goes.
 *
 *   sdtw_problem p; sdtw_exec e; sdtw_buffers b; sdtw_sizes s;
 *   sdtw_problem_init(&p, sizeof p);  p.batch_x = p.batch_y = 32; p.n = p.m = 512; p.features = 8;
 *   sdtw_exec_init(&e, sizeof e);     sdtw_sizes_init(&s, sizeof s);
 *   sdtw_get_sizes(&p, &e, &s);       // allocate s.state, s.forward and s.backward bytes as you like
 *   sdtw_buffers_init(&b, sizeof b);  // fill in pointers and strides
 *   sdtw_forward(&p, &b, &e);         // b.value, b.state
 *   sdtw_backward(&p, &b, &e);        // b.grad_x, b.grad_y
 *
 * or, where both are wanted at once, with e.flags = SDTW_NO_STATE | SDTW_WITH_VALUE, the last call alone.
 *
 * Contracts that hold for every function:
 *
 *  - Thread-safe. No global state is read or written but the calling thread's last error. On CPUs the library's threads
 *    wait for the next call in between; a process may fork at any time, and where there are none to be had, a call does
 *    with the calling one. All compute in the calling thread's rounding mode, and what is said of accuracy is said of
 *    rounding to nearest, with floating-point traps masked.
 *  - On failure the status says what kind, sdtw_last_error() names the argument, what it was and what it may be,
 *    and no buffer of the caller's has been written (except after SDTW_STATUS_CUDA_ERROR and SDTW_STATUS_INTERNAL).
 *  - Nothing throws, aborts or prints.
 *  - CUDA: work is put on sdtw_exec.stream and the call returns; no function synchronises, allocates or reads device
 *    memory from the host, so every call may be captured into a CUDA graph and replayed. What the driver says of a GPU
 *    and of the kernels in a context is asked once by each thread and kept; calls go on after cudaDeviceReset.
 */
#ifndef SDTW_H
#define SDTW_H

#include <stddef.h>
#include <stdint.h>

#define SDTW_VERSION 100 /* major * 10000 + minor * 100 + patch */

#if defined(SDTW_STATIC) /* what links the static library does not export it */
#define SDTW_API
#elif defined(_WIN32)
#ifdef SDTW_BUILD
#define SDTW_API __declspec(dllexport)
#else
#define SDTW_API __declspec(dllimport)
#endif
#else
#define SDTW_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 1. Statuses and constants ---------------------------------------------------------------------------------- */

typedef int32_t sdtw_status;
enum {
  SDTW_STATUS_OK = 0,
  SDTW_STATUS_INVALID_ARGUMENT = 1, /* sdtw_last_error() names the field, what it was and what it may be */
  SDTW_STATUS_INVALID_STRUCT = 2,   /* struct_size is of no version of the struct that this library knows */
  SDTW_STATUS_UNSUPPORTED = 3,      /* a valid request that this version does not implement; the message names it */
  SDTW_STATUS_BUFFER_TOO_SMALL = 4, /* state or workspace: the message gives the bytes needed */
  SDTW_STATUS_NOT_BUILT = 5,        /* this build of the library has no CUDA backend */
  SDTW_STATUS_NO_DEVICE = 6,        /* no driver, no GPU, or no code for this GPU */
  SDTW_STATUS_CUDA_ERROR = 7,       /* the CUDA runtime refused; the message has its words */
  SDTW_STATUS_INTERNAL = 8          /* a fault of the library's own: please report it */
};

typedef int32_t sdtw_dtype;
enum {
  SDTW_F32 = 0,
  SDTW_F64 = 1,
  SDTW_F16 = 2, /* IEEE binary16, computed in float32 */
  SDTW_BF16 = 3 /* bfloat16, computed in float32 */
};

/* The cost of aligning x_i with y_j. Names as in scipy.spatial.distance. Where it has no derivative the gradient takes
 * 0: of SDTW_EUCLIDEAN at points that coincide, of SDTW_CITYBLOCK in features that do. With SDTW_COSINE a zero vector
 * has cost 1 to everything, zero vectors included, and gradient 0; an infinite input is as NaN: it has no direction.
 * Squares of float64 differences are formed in float64: SDTW_EUCLIDEAN is +infinity where they overflow. */
typedef int32_t sdtw_metric;
enum {
  SDTW_PRECOMPUTED = 0, /* the cost matrix is given in sdtw_buffers.x */
  SDTW_SQEUCLIDEAN = 1, /* sum_k (x_ik - y_jk)^2, without a factor */
  SDTW_EUCLIDEAN = 2,   /* its square root */
  SDTW_CITYBLOCK = 3,   /* sum_k |x_ik - y_jk| */
  SDTW_COSINE = 4       /* 1 - <x_i, y_j> / (|x_i| |y_j|) */
};

/* Which cells a path may visit; indices are 0-based, n and m the pair's own lengths. Given costs of other cells are not
 * looked at. */
typedef int32_t sdtw_band;
enum {
  SDTW_BAND_NONE = 0,
  SDTW_BAND_SAKOE_CHIBA = 1, /* -radius <= j - i <= (m - n) + radius for m >= n, mirrored for n > m */
  SDTW_BAND_ABSOLUTE = 2,    /* |i - j| <= radius; an unreachable corner gives +infinity and gradient 0 */
  SDTW_BAND_ITAKURA = 3      /* parallelogram of maximum slope r = band_radius (>= 1), without rounding:
                              * n j / (r m) - 1/200 <= i <= r n j / m + 1/200, and so from the last cell */
};

typedef int32_t sdtw_device;
enum { SDTW_CPU = 0, SDTW_CUDA = 1 };

/* Instruction set of the CPU backend. AVX2, AVX512 and NEON give the same values bit for bit while |value| < 2^52
 * gamma, and gradients that differ by rounding; BASELINE is the code for processors without fused multiply-add, and
 * rounds differently throughout. */
typedef int32_t sdtw_cpu_isa;
enum {
  SDTW_CPU_ISA_AUTO = 0, /* the best that this processor has */
  SDTW_CPU_ISA_BASELINE = 1,
  SDTW_CPU_ISA_AVX2 = 2,   /* AVX2 and FMA */
  SDTW_CPU_ISA_AVX512 = 3, /* AVX-512 F, VL, BW, DQ */
  SDTW_CPU_ISA_NEON = 4    /* Advanced SIMD, which every AArch64 processor has */
};

/* sdtw_problem.flags */
enum {
  SDTW_ALL_PAIRS = 1u, /* every x with every y: batch_x * batch_y pairs, pair = ix * batch_y + iy */
  /* With SDTW_ALL_PAIRS and a metric of series: y is x. buffers.y, y_len and grad_y are not used, m = n and
   * batch_y = batch_x. Half of the pairs are computed, (j, i) being (i, j) transposed; grad_x is the gradient of all
   * that x is in. Vertical and horizontal steps must have equal weights and penalties. */
  SDTW_SYMMETRIC = 2u
};

/* sdtw_exec.flags */
enum {
  SDTW_DETERMINISTIC = 1u, /* bitwise the same result in every run: so far both backends give that without it, too */
  SDTW_NO_STATE = 2u,      /* buffers.state is not used: forward leaves none, the others compute forward themselves */
  SDTW_WITH_VALUE = 4u     /* calls that compute forward themselves write value, too: sdtw_jvp, and without state
                            * sdtw_backward and sdtw_alignment, which with state are SDTW_STATUS_INVALID_ARGUMENT */
};

/* Address alignment, in bytes, that state and workspace must have: malloc's suffices. 64 is faster on CPUs. */
#define SDTW_BUFFER_ALIGNMENT 16

/* ---- 2. Structs. Each begins with its own size and grows at its end only: fill them with sdtw_*_init. ------------ */

/* What to compute. Holds no pointers: it is a cache key. */
typedef struct sdtw_problem {
  size_t struct_size;
  sdtw_metric metric; /* default SDTW_SQEUCLIDEAN */
  sdtw_dtype dtype;   /* of inputs and gradients; default SDTW_F32 */
  uint32_t flags;     /* SDTW_ALL_PAIRS, SDTW_SYMMETRIC */
  int64_t batch_x;    /* series in x, >= 0 */
  int64_t batch_y;    /* series in y: = batch_x unless SDTW_ALL_PAIRS; 0 of either: calls succeed and write nothing */
  int64_t n, m;       /* padded lengths of x and y, >= 1 and < 2^30 */
  int64_t features;   /* of one time step, >= 1 and < 2^30; 0 for SDTW_PRECOMPUTED */
  double gamma;       /* smoothing, finite and >= 1e-200, or 0: hard DTW, ties broken diagonal, vertical, horizontal */
  sdtw_band band;
  double band_radius;     /* >= 0, in cells; for SDTW_BAND_ITAKURA the maximum slope, >= 1; unused without a band */
  double step_weight[3];  /* w >= 0: diagonal, vertical, horizontal; multiplies the cost; default 1, 1, 1 */
  double step_penalty[3]; /* p: added per step; default 0, 0, 0. The first cell has the diagonal weight, no penalty. */
  int32_t length_bits;    /* type of x_len and y_len: 32 or 64; default 64 */
  int32_t reserved;       /* must be 0 */
} sdtw_problem;

/* Where and how to compute it. */
typedef struct sdtw_exec {
  size_t struct_size;
  sdtw_device device;
  uint32_t flags;             /* SDTW_DETERMINISTIC, SDTW_NO_STATE, SDTW_WITH_VALUE */
  int32_t num_threads;        /* CPU: threads of this call, 0 to 4096; 0: OpenMP's default for the calling thread */
  sdtw_cpu_isa cpu_isa;       /* CPU: default SDTW_CPU_ISA_AUTO; backward follows the forward that wrote its state */
  struct CUstream_st *stream; /* CUDA: a cudaStream_t of the current device; NULL is the default stream */
} sdtw_exec;

/* An array in the memory of the exec's device. Strides are in elements, may be negative, and for inputs 0 broadcasts;
 * that of a dimension of one element is not looked at. Elements of an output must not share an address: of its
 * dimensions, sorted by stride, each must step past all that the smaller ones reach. What a call writes must share no
 * element with anything else of the call; it may lie in its gaps, as x[:, 0::2] does in those of x[:, 1::2]. data must
 * be aligned to the element. */
typedef struct sdtw_in {
  const void *data;
  int64_t stride[3];
} sdtw_in;
typedef struct sdtw_out {
  void *data;
  int64_t stride[3];
} sdtw_out;

/* All data of a call. NULL data is an absent array. "dtype" is sdtw_problem.dtype; B is the number of pairs. */
typedef struct sdtw_buffers {
  size_t struct_size;
  sdtw_in x;              /* [batch_x, n, features] dtype; SDTW_PRECOMPUTED: the cost [B, n, m] */
  sdtw_in y;              /* [batch_y, m, features] dtype; SDTW_PRECOMPUTED: unused */
  const void *x_len;      /* [batch_x] integers of length_bits, or NULL: every length is n */
  const void *y_len;      /* [batch_y] likewise, m; SDTW_PRECOMPUTED: both are [B] */
  void *value;            /* [B] float64 for SDTW_F64, else float32 */
  const void *grad_value; /* [B] like value: upstream gradient g; NULL: ones */
  sdtw_out grad_x;        /* like x: dtype; SDTW_PRECOMPUTED: g G, [B, n, m] */
  sdtw_out grad_y;        /* like y: dtype */
  sdtw_out alignment;     /* [B, n, m] of dtype: the expected alignment E */
  void *state;            /* forward writes it; backward and alignment read it */
  size_t state_bytes;
  void *workspace; /* scratch: free for other use when the call's work has completed */
  size_t workspace_bytes;
  sdtw_in tangent_x;       /* jvp: like x, a direction of x; NULL: zeros */
  sdtw_in tangent_y;       /* jvp: like y, a direction of y; NULL: zeros; SDTW_PRECOMPUTED: unused */
  void *value_tangent;     /* jvp: [B] like value */
  sdtw_out grad_x_tangent; /* jvp: like grad_x: the derivative of grad_x along the tangents */
  sdtw_out grad_y_tangent; /* jvp: like grad_y: that of grad_y */
} sdtw_buffers;

/* Bytes needed. */
typedef struct sdtw_sizes {
  size_t struct_size;
  size_t state; /* depends on the problem and the device alone; CUDA: of all pairs often 0 */
  size_t forward, backward, jvp, alignment; /* workspace of each call; on the CPU also a function of num_threads */
} sdtw_sizes;

/* ---- 3. About the library --------------------------------------------------------------------------------------- */

/* SDTW_VERSION of the library that is linked. */
SDTW_API int32_t sdtw_version(void);

/* One line: version, compiler, backends and instruction sets built in. Static storage. */
SDTW_API const char *sdtw_build_info(void);

/* A status' name, "SDTW_STATUS_OK" and so on; "unknown status" for any other number. Static storage. */
SDTW_API const char *sdtw_status_string(sdtw_status status);

/* What went wrong in the calling thread's last call that did not return SDTW_STATUS_OK; "" if none has. Valid until
 * the thread's next failing call. */
SDTW_API const char *sdtw_last_error(void);

/* SDTW_STATUS_OK if the device can be used now; else SDTW_STATUS_NOT_BUILT, SDTW_STATUS_NO_DEVICE or
 * SDTW_STATUS_INVALID_ARGUMENT. For SDTW_CUDA it asks the driver about the current device, and whether the library has
 * code for it; a driver that gives no answer is SDTW_STATUS_CUDA_ERROR. */
SDTW_API sdtw_status sdtw_device_available(sdtw_device device);

/* ---- 4. Initialisers: fill a struct with its defaults. struct_size is sizeof the struct as the caller compiled it.
 *         Return SDTW_STATUS_INVALID_ARGUMENT for a null pointer, SDTW_STATUS_INVALID_STRUCT for a size that no
 *         version has; the struct is then untouched. --------------------------------------------------------------- */

SDTW_API sdtw_status sdtw_problem_init(sdtw_problem *problem, size_t struct_size);
SDTW_API sdtw_status sdtw_exec_init(sdtw_exec *exec, size_t struct_size);
SDTW_API sdtw_status sdtw_buffers_init(sdtw_buffers *buffers, size_t struct_size);
SDTW_API sdtw_status sdtw_sizes_init(sdtw_sizes *sizes, size_t struct_size);

/* ---- 5. Planning ------------------------------------------------------------------------------------------------ */

/* Bytes of state and workspace for this problem. Closed forms of the problem's sizes: needs no GPU, touches no data.
 * A size that does not fit size_t is SDTW_STATUS_INVALID_ARGUMENT. With SDTW_NO_STATE state is 0, and the rest is what
 * calls without state need, which may be more. For a problem that no backend implements, SDTW_STATUS_UNSUPPORTED.
 * O(1). */
SDTW_API sdtw_status sdtw_get_sizes(const sdtw_problem *problem, const sdtw_exec *exec, sdtw_sizes *sizes);

/* Writes the plan (the algorithm, tile shape, threads and thresholds that a call would use) as text into
 * text[0..capacity), always zero-terminated, cut where it does not fit. For people: the wording may change. */
SDTW_API sdtw_status sdtw_describe(const sdtw_problem *problem, const sdtw_exec *exec, char *text, size_t capacity);

/* ---- 6. Computing ----------------------------------------------------------------------------------------------- */

/* Soft-DTW of every pair: value[b] = R[n_b - 1, m_b - 1].
 *
 * Reads x, y, x_len, y_len. Writes value (required), and state unless it is NULL or SDTW_NO_STATE is given: then the
 * call is inference-only. Workspace: sdtw_sizes.forward bytes; without state what sdtw_get_sizes says with
 * SDTW_NO_STATE.
 *
 * Defined results, pair by pair, none of which touches another pair:
 *   both lengths 0: 0; exactly one 0: +infinity; a length outside [0, n] or [0, m]: NaN;
 *   a cost of NaN, as NaN in either of its points makes it, or of -infinity, in a cell that the band admits: NaN;
 *   a cost of +infinity: that cell is forbidden; no admissible path, as where the band admits no cell of a point:
 *   +infinity;
 *   a finite cost with which |w D + p| log2(e) / gamma is 1e289 or more for any of the three steps into its cell, as
 *   float64 inputs, or huge w or p, alone can make: NaN; on CPUs also |w D + p| of 1e298 or more at gamma = 0, and any
 *   D where w log2(e) / gamma is beyond the range of double; D is taken to be 2 here with SDTW_COSINE;
 *   a value beyond dtype's range: the infinity of its sign.
 * Rows and columns past a pair's lengths are never read.
 *
 * Accuracy for float32, against a float64 evaluation of the same inputs, at any length and gamma: within
 * 4e-7 (|value| + <E, |D|> + gamma sqrt(n + m)), where <E, |D|> is the expected cost of a path and n and m are the
 * pair's own lengths; 0.15 max(n, m) gamma more in the brackets where one of these is more than 16 times the other, 0.3
 * max(n, m) gamma more of a series with itself. Near 0, where cost and entropy cancel, the value has the fewer digits
 * for it.
 *
 * Time O(B n m features); memory beyond inputs and outputs O(B n m / tile) in state, on CPUs of the cells within the
 * band, O(threads (n + m) features) in workspace. Calls of equal problems and inputs on a CPU leave equal bytes of
 * state. May be captured into a CUDA graph. */
SDTW_API sdtw_status sdtw_forward(const sdtw_problem *problem, const sdtw_buffers *buffers, const sdtw_exec *exec);

/* Gradients of sum_b grad_value[b] value[b] with respect to x and y (SDTW_PRECOMPUTED: to the cost, in grad_x).
 *
 * Reads x, y, x_len, y_len as forward did, grad_value (NULL: ones) and the state of that forward. On CPUs lengths
 * other than forward's, state of another problem, and state that is damaged where it says what to read, are
 * SDTW_STATUS_INVALID_ARGUMENT. On a GPU the host does not see them: a pair whose lengths are not forward's gets
 * results without meaning, and nothing outside the buffers is read or written. Writes grad_x and grad_y, each of
 * which may be NULL, not both; every element is written, with 0 past a pair's lengths. The gradient of the cost is g
 * G (Cuturi and Blondel 2017, Algorithm 2), computed from transition probabilities that are recomputed tile by tile
 * from the state. On CPUs a pair whose lengths make its corridor wider than state has room for is computed as without
 * state; the results have the same bits.
 *
 * With SDTW_NO_STATE, or if state is NULL, the call computes forward itself, a part of the batch at a time, and with
 * SDTW_WITH_VALUE writes value as sdtw_forward does: on CPUs bit for bit, gradients being those by state bit for bit
 * as well while (n + m) |D| < 2^51 gamma. That takes less time on CPUs than the two calls: series are brought into
 * vectors once, and of the transition probabilities of a pair, or of 16 short ones that share vectors, each thread's
 * workspace keeps up to 3 MiB. On a GPU it takes as long as the two.
 *
 * Tiles whose incoming E is below 1e-12 everywhere, of float64 on CPUs below 1e-14, are skipped: E there is 0 (its
 * exact value is below that times the number of cells of a tile). The threshold is relative to grad_value.
 *
 * Accuracy for float32: no entry is off by more than 2e-5 times the pair's largest entry in either gradient for data of
 * unit scale and gamma >= 0.1, and 2e-4 times for smaller gamma. Where |value| > 2^38 gamma, 2^-52 |value| / gamma is
 * added to these factors: exponents take the digits.
 *
 * Where the value is +infinity because there is no path or one series is empty, the gradient is 0; a value beyond
 * dtype's range is stored as an infinity, but its gradient is that of the value itself. Where the value is NaN the
 * pair's gradient is NaN within its padded lengths. An infinite or NaN grad_value makes its own pair's gradients
 * what IEEE arithmetic makes of them, and no other's: of series also one of which the double is infinite, as
 * 2 * grad_value is formed in dtype.
 *
 * Of all pairs, gradients are sums over pairs in a fixed order. On CPUs the workspace has these sums in float64, 8
 * bytes for each element of x and of y, beside what each thread needs.
 *
 * Time O(live cells features), at most a small multiple of forward's. Workspace: sdtw_sizes.backward bytes.
 * May be captured into a CUDA graph. */
SDTW_API sdtw_status sdtw_backward(const sdtw_problem *problem, const sdtw_buffers *buffers, const sdtw_exec *exec);

/* The expected alignment E of every pair, in buffers.alignment, for any metric.
 *
 * Reads x, y, x_len, y_len and state as sdtw_backward does, or without state computes forward, with SDTW_WITH_VALUE
 * writing value, as that does; grad_value is not used. Every element is written, 0 past a pair's lengths and where
 * there is no path, NaN where the value is NaN. E[0,0] = E[n-1,m-1] = 1.
 * Workspace: sdtw_sizes.alignment bytes. May be captured into a CUDA graph. */
SDTW_API sdtw_status sdtw_alignment(const sdtw_problem *problem, const sdtw_buffers *buffers, const sdtw_exec *exec);

/* Directional derivatives of the value and of its gradients along a tangent of the inputs (Mensch and Blondel,
 * Differentiable Dynamic Programming for Structured Prediction and Attention, ICML 2018, Algorithm 2, carried through
 * the metric).
 *
 * Reads x, y, x_len, y_len as forward does, tangent_x and tangent_y (NULL: zeros; not both), grad_value (NULL: ones).
 * Needs no state and reads none. With the cost's derivative along the tangents, T_ij = <dD_ij/dx_i, tangent_x_i> +
 * <dD_ij/dy_j, tangent_y_j> (SDTW_PRECOMPUTED: T = tangent_x), it writes
 *
 *   value_tangent[b] = <G, T>, the derivative of the value, and
 *   grad_x_tangent, grad_y_tangent: the derivatives of what sdtw_backward writes to grad_x and grad_y. For
 *     SDTW_PRECOMPUTED that is g H T in grad_x_tangent, H being the Hessian of the value.
 *
 * Each of the three may be NULL, not all. With SDTW_WITH_VALUE it writes value, too, to sdtw_forward's accuracy: other
 * kernels compute it here. At gamma = 0 the path is held fixed. Lengths, padding and pairs without a
 * path or a finite value are as in sdtw_forward (value_tangent: 0 where the value is +infinity, NaN where it is NaN)
 * and sdtw_backward. Workspace: sdtw_sizes.jvp bytes. May be captured into a CUDA graph. */
SDTW_API sdtw_status sdtw_jvp(const sdtw_problem *problem, const sdtw_buffers *buffers, const sdtw_exec *exec);

#ifdef __cplusplus
}
#endif
#endif /* SDTW_H */
