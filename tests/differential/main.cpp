// The differential driver: random problems on a backend in float32 (some in float64), held against what must be true of
// every alignment, and a share of them against the CPU's float64. A failing problem is printed as the line that reruns
// it.
//
//   sdtw_differential [--device cuda] [--seed S] [--problems N] [--seconds T] [--threads J] [--cells C] [--share R]
//                     [--verbose]
//
// share: of problems that are held against float64, too. cells: see draw_problem.
#include <getopt.h>

#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <mutex>
#include <thread>

#include "cpu_reference.h"
#include "limits.h"
#include "problem.h"
#include "worker.h"

using namespace test;

namespace {

struct Settings {
  sdtw_device device = SDTW_CPU;
  uint64_t seed = 1, problems = UINT64_MAX;
  double seconds = 60, share = 1;
  int64_t cells = 600000;
  int threads = 0;
  bool verbose = false;
};

struct Tally {
  uint64_t problems = 0, pairs = 0, compared = 0, failed = 0;
  struct Row {
    uint64_t pairs = 0, failed = 0;
    Errors worst;       // over the limits
    uint64_t seed = 0;  // of the problem with the worst gradient
  };
  Row rows[static_cast<size_t>(Data::count)];
};

std::mutex printing;
Tally tally;

std::string command(const Settings &settings, uint64_t seed) {
  return std::string("sdtw_differential --device ") + (settings.device == SDTW_CUDA ? "cuda" : "cpu") +
         " --problems 1 --share 1 --cells " + std::to_string(settings.cells) + " --seed " + std::to_string(seed);
}

void report(const Settings &settings, uint64_t seed, const Drawn &drawn, int64_t pair, const std::string &what) {
  std::printf("FAILED %s   # pair %" PRId64 " (%" PRId64 ", %" PRId64 ", %s) of %s: %s\n",
              command(settings, seed).c_str(), pair, drawn.c.length_x(pair), drawn.c.length_y(pair),
              data_names[static_cast<size_t>(drawn.data[pair])], describe(drawn.c).c_str(), what.c_str());
  std::fflush(stdout);
}

std::string text(const char *format, double a, double b) {
  char buffer[160];
  std::snprintf(buffer, sizeof buffer, format, a, b);
  return buffer;
}

void run_problem(const Settings &settings, uint64_t seed) {
  Random random(seed ^ 0x9e3779b97f4a7c15u);
  Drawn drawn = draw_problem(seed, settings.device, settings.cells);
  Case &c = drawn.c;
  prepare_worker(c);
  if (settings.device == SDTW_CPU) c.exec.cpu_isa = SDTW_CPU_ISA_AUTO;
  const bool compares = random.uniform() < settings.share;
  c.checks_memory = random.uniform() < 0.2;
  std::string failure;
  std::vector<std::pair<int64_t, std::string>> failures;
  Result result;
  try {
    c.poison = 0xff;
    result = compute(c);
    c.poison = 0x3c;
    if (!same(compute(c), result)) failures.emplace_back(0, "not the same bits twice");
    Case alone = c;
    alone.exec.flags |= SDTW_NO_STATE;
    const Result without = compute(alone);
    for (int64_t b = 0; b < c.batch(); ++b)
      if (const std::string wrong = check_alignment(c, result, b); !wrong.empty()) failures.emplace_back(b, wrong);
    Tally::Row found[static_cast<size_t>(Data::count)];
    if (compares) {
      const Reference<double> ref = cpu_reference(c, 1);
      for (int64_t b = 0; b < c.batch(); ++b) {
        const Errors limit = limits(c, ref.value[b]);
        Errors error = compare_pair(c, result, ref, b);
        error.value = std::max(error.value, ratio(distance(&without.value[b], &ref.value[b], 1), ref.scale[b]));
        Tally::Row &row = found[static_cast<size_t>(drawn.data[b])];
        const Errors over{error.value / limit.value, error.gradient / limit.gradient,
                          error.alignment / limit.alignment};
        row.worst = {std::max(row.worst.value, over.value), std::max(row.worst.gradient, over.gradient),
                     std::max(row.worst.alignment, over.alignment)};
        row.pairs++;
        if (!(over.value <= 1)) failures.emplace_back(b, text("value off by %.2e of %.3g", error.value, ref.scale[b]));
        if (!(over.gradient <= 1))
          failures.emplace_back(b, text("gradient off by %.2e, allowed %.0e", error.gradient, limit.gradient));
        if (!(over.alignment <= 1))
          failures.emplace_back(b, text("alignment off by %.2e, allowed %.0e", error.alignment, limit.alignment));
      }
    }
    const std::lock_guard<std::mutex> lock(printing);
    tally.compared += compares ? c.batch() : 0;
    for (size_t k = 0; k < static_cast<size_t>(Data::count); ++k) {
      Tally::Row &row = tally.rows[k];
      row.pairs += found[k].pairs;
      if (std::max(found[k].worst.gradient, found[k].worst.alignment) >
          std::max(row.worst.gradient, row.worst.alignment))
        row.seed = seed;
      row.worst = {std::max(row.worst.value, found[k].worst.value),
                   std::max(row.worst.gradient, found[k].worst.gradient),
                   std::max(row.worst.alignment, found[k].worst.alignment)};
    }
  } catch (const std::exception &error) {
    failures.emplace_back(0, error.what());
  }
  const std::lock_guard<std::mutex> lock(printing);
  tally.problems++, tally.pairs += c.batch();
  if (failures.empty()) return;
  tally.failed++;
  if (settings.verbose || tally.failed <= 40)
    for (const auto &[pair, what] : failures) report(settings, seed, drawn, pair, what);
  for (const auto &[pair, what] : failures) tally.rows[static_cast<size_t>(drawn.data[pair])].failed++;
}

Settings parse(int argc, char **argv) {
  static const option options[] = {{"device", required_argument, nullptr, 'd'},
                                   {"seed", required_argument, nullptr, 's'},
                                   {"problems", required_argument, nullptr, 'p'},
                                   {"seconds", required_argument, nullptr, 't'},
                                   {"share", required_argument, nullptr, 'r'},
                                   {"threads", required_argument, nullptr, 'j'},
                                   {"cells", required_argument, nullptr, 'c'},
                                   {"verbose", no_argument, nullptr, 'v'},
                                   {}};
  Settings settings;
  for (int key; (key = getopt_long(argc, argv, "", options, nullptr)) != -1;) switch (key) {
      case 'd': settings.device = std::string(optarg) == "cuda" ? SDTW_CUDA : SDTW_CPU; break;
      case 's': settings.seed = std::strtoull(optarg, nullptr, 10); break;
      case 'p': settings.problems = std::strtoull(optarg, nullptr, 10); break;
      case 't': settings.seconds = std::atof(optarg); break;
      case 'r': settings.share = std::atof(optarg); break;
      case 'j': settings.threads = std::atoi(optarg); break;
      case 'c': settings.cells = std::atoll(optarg); break;
      case 'v': settings.verbose = true; break;
      default: std::exit(2);
    }
  if (settings.threads < 1) settings.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return settings;
}

}  // namespace

int main(int argc, char **argv) {
  const Settings settings = parse(argc, argv);
  options().device = settings.device;
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  std::atomic<uint64_t> next{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < settings.threads; ++i)
    workers.emplace_back([&] {
      for (uint64_t k; elapsed() < settings.seconds && (k = next.fetch_add(1)) < settings.problems;)
        run_problem(settings, settings.seed + k);
    });
  for (std::thread &worker : workers) worker.join();
  std::printf("%-10s %10s %8s   largest error over the limit: %8s %8s %8s  %s\n", "data", "compared", "failures",
              "value", "gradient", "E", "seed of the last two");
  for (size_t k = 0; k < static_cast<size_t>(Data::count); ++k) {
    const Tally::Row &row = tally.rows[k];
    std::printf("%-10s %10" PRIu64 " %8" PRIu64 " %38.2f %8.2f %8.2f  %" PRIu64 "\n", data_names[k], row.pairs,
                row.failed, row.worst.value, row.worst.gradient, row.worst.alignment, row.seed);
  }
  std::printf("seed %" PRIu64 ": %" PRIu64 " problems of %" PRIu64 " pairs, %" PRIu64 " pairs compared, %" PRIu64
              " problems failed, in %.0f s\n",
              settings.seed, tally.problems, tally.pairs, tally.compared, tally.failed, elapsed());
  return tally.failed == 0 ? 0 : 1;
}
