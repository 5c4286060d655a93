// Costs of many features, which four warps of the block compute for the one that sweeps: 16 columns of a strip at a
// time, into a ring in shared memory, [column][row].
#pragma once

#include "inline_costs.cuh"

namespace sdtw::cuda {

constexpr int producers = producers_of_tiles;  // warps; each has 32 rows of the strip
constexpr int chunk_columns = 16;              // computed at a time
constexpr int column_pitch = K * warp + 8;  // no bank conflicts where lanes write or read K rows of different columns

// What the sweeping warp reads of them. Element: what the producers write.
template <class Element_>
struct TileReader {
  using Element = Element_;
  static constexpr bool cooperative = true;
  static constexpr int warps = 1 + producers;  // of a block of forward
  __host__ __device__ static size_t ring_bytes(int columns) { return sizeof(Element) * columns * column_pitch; }

  const Element *ring;
  int columns;  // of the ring: a power of two
  int lane, start;

  // Forward: the producers are a block of steps ahead.
  __device__ __forceinline__ void enter(int) const { __syncthreads(); }
  __device__ __forceinline__ void stage(int) const {}

  __device__ __forceinline__ void seek(int first) { start = first - lane; }
  __device__ __forceinline__ Rows<Element> read(int u) const {
    const int column = (start + u) & (columns - 1);
    return *reinterpret_cast<const Rows<Element> *>(ring + column * column_pitch + K * lane_id());
  }
};

// c += a b: a 16 x 8 matrix a, elements [lane / 4 (+ 8)][lane % 4 (+ 4)], first the rows and then the columns; an 8 x 8
// matrix b, [lane % 4 (+ 4)][lane / 4]; a 16 x 8 matrix c, [lane / 4 (+ 8)][lane % 4 * 2 (+ 1)], first the columns.
__device__ __forceinline__ void multiply_add(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
#pragma unroll
  for (int part = 0; part < 2; part++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      double &c0 = c[2 * half], &c1 = c[2 * half + 1];
      const double row = a[2 * part + half];
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
      asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
          : "+d"(c0), "+d"(c1)
          : "d"(row), "d"(b[part]));
#else
      const int lane = lane_id();
#pragma unroll
      for (int k = 0; k < 4; k++) {
        const double of_a = __shfl_sync(all_lanes, row, lane / 4 * 4 + k);
        c0 = fma(of_a, __shfl_sync(all_lanes, b[part], lane % 4 * 8 + k), c0);
        c1 = fma(of_a, __shfl_sync(all_lanes, b[part], lane % 4 * 8 + 4 + k), c1);
      }
#endif
    }
#endif
}

// t of costs that the fast engine may take, in fixed point with as many bits of fraction as their bound leaves.
__device__ __forceinline__ int fraction_bits(const Args &a, int64_t pair) {
  const int exponent = (__float_as_int(cost_bound(a, pair)) >> 23) - 127;
  return 29 - min(max(exponent, 0), 28);
}

// D = |x - o|^2 + |y - o|^2 + 2 <o, y - o> - 2 <x, y - o> of float32 series by the float64 matrix instructions of
// data-centre GPUs; o is the first point of x, so that a common offset does not cancel. A thread of the producers has
// the K rows of one lane of the sweep.
struct TensorCosts : TileReader<int> {
  static constexpr int resident = 2;
  static constexpr int chunk = 64;         // features at a time, which x is held in registers for
  static constexpr int pitch = chunk + 4;  // in doubles: 4 rows and 4 columns of a matrix meet no bank twice
  static constexpr int guard = 6;          // bits of sums beyond those of the result

  int bits;
  __device__ __forceinline__ void begin(const Args &a, const View &s) {
    lane = s.lane;
    bits = s.active ? fraction_bits(a, s.pair.index) : 1;
  }
  __device__ __forceinline__ void costs(int u, Fast::Cost (&cost)[K]) const {
    const Rows<int> words = read(u);
#pragma unroll
    for (int k = 0; k < K; k++) cost[k] = Fast::split_word(words.v[k], bits);
  }
  __device__ __forceinline__ bool exceeded(const Args &, const View &) const { return false; }

  // y of 16 columns of every pair of the task, relative to o and scaled; and that of the next 16 as it comes from
  // memory.
  static constexpr size_t pair_bytes = chunk_columns * (sizeof(double) * pitch + sizeof(float) * chunk);
  __host__ __device__ static size_t scratch_bytes(const Args &a) { return (warp >> a.lane_bits) * pair_bytes; }

  struct Producer {
    const Args &a;
    int *ring;
    int ring_mask;
    double *y;  // of the warp's pair
    float *incoming;
    int fetched;  // the column whose chunk `incoming` has, or none
    static constexpr int none = 1 << 30;
    int64_t base_y;
    int n, m, first_row;
    const float *xs;
    const double *norms;  // what the columns add to their sums
    int lane, own_columns, first_own;
    float origin[chunk / warp];  // features lane, lane + 32
    float x[chunk / 8][2][4];
    double base[K];  // what the rows' sums begin with
    int at;          // of the thread's rows in a column

    // s: the view of the lane whose rows these are.
    __device__ __forceinline__ Producer(const Args &args, const View &s, int strip_lane, int *to, int columns)
        : a(args), ring(to), ring_mask(columns - 1), fetched(none) {
      const int pairs = warp >> a.lane_bits, worker = threadIdx.x / warp % producers;
      y = reinterpret_cast<double *>(reinterpret_cast<unsigned char *>(ring + columns * column_pitch) +
                                     (strip_lane >> a.lane_bits) * pair_bytes);
      incoming = reinterpret_cast<float *>(y + chunk_columns * pitch);
      own_columns = chunk_columns * pairs / producers;
      first_own = worker % (producers / pairs) * own_columns;
      lane = lane_id();
      n = s.pair.n, m = s.pair.m, first_row = s.row_of(0);
      xs = static_cast<const float *>(a.x.data) + s.pair.index * a.x.stride[0];
      base_y = s.pair.index * a.y.stride[0];
      at = strip_lane * K;
      const double *x_norms = norms_of(a, s.pair.index);
      norms = x_norms + a.n;
      const int fraction = s.active ? fraction_bits(a, s.pair.index) : 1;
      const auto power = [](int e) { return __hiloint2double((1023 + e) << 20, 0); };
      const double fixed = 1.5 * power(52 - guard - fraction) + 0.5 + power(-min(fraction + 1, 24));
#pragma unroll
      for (int k = 0; k < K; k++) base[k] = fixed + x_norms[clamp(first_row + k, n)];
      if (a.features <= chunk) load_x(0);
      load_origin(0);
    }

    __device__ __forceinline__ void load_origin(int f0) {
#pragma unroll
      for (int i = 0; i < chunk / warp; i++) {
        const int f = f0 + i * warp + lane;
        origin[i] = f < a.features ? __ldg(xs + f * a.x.stride[2]) : 0;
      }
    }
    __device__ __forceinline__ const float *x_row(int k) const {
      return xs + static_cast<int64_t>(clamp(first_row + k, n)) * a.x.stride[1];
    }
    // Features [f0, f0 + 64) of the thread's rows.
    __device__ __forceinline__ void load_x(int f0) {
#pragma unroll
      for (int k = 0; k < K; k++) {
        const float *row = x_row(k);
#pragma unroll
        for (int i = 0; i < chunk / 4; i++) {
          const int f = f0 + 4 * i + lane % 4;
          x[i / 2][k / 2][i % 2 * 2 + k % 2] = f < a.features ? __ldg(row + f * a.x.stride[2]) : 0;
        }
      }
    }

    // The warp's share of 16 columns of y, features [f0, f0 + 64).
    __device__ __forceinline__ void fetch(int first, int f0) {
      const float *from = static_cast<const float *>(a.y.data) + base_y;
#pragma unroll
      for (int i = 0; i < chunk / warp; i++) {
        const int f = i * warp + lane;
        const int64_t feature = (f0 + f) * a.y.stride[2];
        const bool has = f0 + f < a.features;
#pragma unroll 4
        for (int c = first_own; c < first_own + own_columns; c++)
          if (has)
            __pipeline_memcpy_async(incoming + c * chunk + f, from + clamp(first + c, m) * a.y.stride[1] + feature,
                                    sizeof(float));
          else
            incoming[c * chunk + f] = 0;
      }
      __pipeline_commit();
      fetched = first;
    }
    __device__ __forceinline__ void convert() {
      __pipeline_wait_prior(0);
      const double factor = -2 * a.scale;
      for (int c0 = first_own; c0 < first_own + own_columns; c0 += 4) {
        float value[4][chunk / warp];
#pragma unroll
        for (int c = 0; c < 4; c++)
#pragma unroll
          for (int i = 0; i < chunk / warp; i++) value[c][i] = incoming[(c0 + c) * chunk + i * warp + lane];
#pragma unroll
        for (int c = 0; c < 4; c++)
#pragma unroll
          for (int i = 0; i < chunk / warp; i++)
            y[(c0 + c) * pitch + i * warp + lane] =
                factor * (static_cast<double>(value[c][i]) - static_cast<double>(origin[i]));
      }
    }

    // 16 columns into the ring, all producers together; next: the column that will be asked for next.
    template <class Meet>
    __device__ __forceinline__ void produce(int first, int next, Meet meet) {
      const bool whole = a.features <= chunk;
      double y_part[2][2];
#pragma unroll
      for (int i = 0; i < 4; i++) y_part[i / 2][i % 2] = __ldg(norms + clamp(first + column_of(i / 2, i % 2), m));
      double sum[2][2][4];
#pragma unroll
      for (int i = 0; i < 16; i++) sum[i / 8][i / 4 % 2][i % 4] = base[i / 4 % 2 * 2 + i % 4 / 2];
      for (int f0 = 0; f0 < a.features; f0 += chunk) {
        if (!whole) load_x(f0), load_origin(f0);
        if (!whole || fetched != first) fetch(first, f0);
        meet();  // y has been read
        convert();
        meet();
        if (whole) fetch(next, 0);
        multiply(min(chunk, a.features - f0), sum);
      }
#pragma unroll
      for (int j = 0; j < 2; j++)
#pragma unroll
        for (int odd = 0; odd < 2; odd++) {
          const int slot = (first + column_of(j, odd)) & ring_mask;
          Rows<int> words;
#pragma unroll
          for (int k = 0; k < K; k++) words.v[k] = result(sum[j][k / 2][k % 2 * 2 + odd] + y_part[j][odd]);
          *reinterpret_cast<Rows<int> *>(ring + slot * column_pitch + at) = words;
        }
    }

    // Matrix column c is column c / 2, or c / 2 + 4 if c is odd: so writing them meets no bank twice.
    __device__ __forceinline__ int column_of(int j, int odd) const { return 8 * j + lane % 4 + 4 * odd; }

    static __device__ __forceinline__ int result(double sum) {
      return static_cast<int>(__funnelshift_r(static_cast<unsigned>(__double2loint(sum)),
                                              static_cast<unsigned>(__double2hiint(sum)), guard));
    }

    __device__ __forceinline__ void multiply(int features, double (&sum)[2][2][4]) const {
      const int g = lane / 4;
      const double *b_column = y + ((g & 1) * 4 + g / 2) * pitch + lane % 4;
#pragma unroll
      for (int i = 0; i < chunk / 8; i++) {
        if (8 * i >= features) break;
        double b[2][2];
#pragma unroll
        for (int j = 0; j < 2; j++)
          b[j][0] = b_column[8 * j * pitch + 8 * i], b[j][1] = b_column[8 * j * pitch + 8 * i + 4];
#pragma unroll
        for (int half = 0; half < 2; half++) {
          double rows[4];
#pragma unroll
          for (int e = 0; e < 4; e++) rows[e] = x[i][half][e];
#pragma unroll
          for (int j = 0; j < 2; j++) multiply_add(sum[j][half], rows, b[j]);
        }
      }
    }
  };
};

// Sums of squared differences in float64, for the wide engine: nothing cancels in them.
struct DifferenceCosts : TileReader<double> {
  static constexpr int resident = 1;
  Wide::Scale scale{0};
  __device__ __forceinline__ void begin(const Args &a, const View &s) {
    lane = s.lane;
    scale = Wide::Scale(a.scale);
  }
  __device__ __forceinline__ void costs(int u, Wide::Cost (&cost)[K]) const {
    const Rows<double> distances = read(u);
#pragma unroll
    for (int k = 0; k < K; k++) cost[k] = Wide::split(distances.v[k], scale);
  }
  __device__ __forceinline__ bool exceeded(const Args &, const View &) const { return false; }

  __host__ __device__ static size_t scratch_bytes(const Args &) { return 0; }

  struct Producer {
    const Args &a;
    double *ring;
    int ring_mask;
    int64_t x, y;
    int m, at;

    // s: the view of lane 8 warp + lane / 4; the thread has row lane % 4 of it.
    __device__ __forceinline__ Producer(const Args &args, const View &s, int strip_lane, double *to, int columns)
        : a(args), ring(to), ring_mask(columns - 1) {
      const int k = lane_id() % 4;
      x = s.pair.index * a.x.stride[0] + static_cast<int64_t>(clamp(s.row_of(k), s.pair.n)) * a.x.stride[1];
      y = s.pair.index * a.y.stride[0];
      m = s.pair.m;
      at = strip_lane * K + k;
    }

    template <class Meet>
    __device__ __forceinline__ void produce(int column, int, Meet) {
      double sum[chunk_columns] = {};
      for (int f = 0; f < a.features; f++) {
        const double from = load<double>(a.x.data, x + f * a.x.stride[2], a.f64);
#pragma unroll
        for (int c = 0; c < chunk_columns; c++) {
          const int64_t point = y + clamp(column + c, m) * a.y.stride[1] + f * a.y.stride[2];
          const double difference = from - load<double>(a.y.data, point, a.f64);
          sum[c] = fma(difference, difference, sum[c]);
        }
      }
#pragma unroll
      for (int c = 0; c < chunk_columns; c++) ring[((column + c) & ring_mask) * column_pitch + at] = sum[c];
    }
  };
};

}  // namespace sdtw::cuda
