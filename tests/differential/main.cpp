// Problems of the whole family on a backend, given lines or random ones, held against what must be true of every
// alignment, and against the oracle or the CPU's float64. A failing problem is printed as the line that reruns it.
//
//   sdtw_differential --problem 'metric=cityblock dtype=f16 B=3 n=40 m=52 d=7 seed=42' [--device cuda]
//   sdtw_differential --lines FILE [--device cuda] [--seconds T] [--threads J] [--verbose]
//   sdtw_differential [--device cuda] [--seed S] [--problems N] [--seconds T] [--threads J] [--cells C] [--share R]
//                     [--thin | --residues | --large] [--verbose]
//
// device: without it the line's, or the CPU. share: of problems that are held against a reference, too. cells, thin,
// residues, large: see draw_line. The grammar of lines: problem.h.
#include <getopt.h>

#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>
#include <thread>

#include "draw_problem.h"
#include "judge.h"
#include "skips.h"
#include "worker.h"

using namespace test;

namespace {

struct Settings {
  std::optional<sdtw_device> device;  // without one lines say it, or it is the CPU
  uint64_t seed = 1, problems = UINT64_MAX;
  double seconds = 0, share = 1;  // 0: a minute of random problems, or all lines of a file
  int64_t cells = 600000;
  int threads = 0;
  bool verbose = false;
  Shapes shapes = Shapes::any;
  std::string problem;
  std::vector<std::string> lines;  // of a file, instead of random ones
};

struct Row {
  uint64_t problems = 0, failed = 0;
  Errors worst;      // over the limits
  std::string line;  // of the worst
};

struct Tally {
  uint64_t problems = 0, pairs = 0, compared = 0, failed = 0, refused = 0;
  std::map<std::string, Row> rows;  // by what a problem is of
};

std::mutex printing;
Tally tally;

double worst_of(const Errors &e) {
  return std::max({e.value, e.gradient, e.alignment, e.value_tangent, e.gradient_tangent});
}

// What a problem is of: it counts in each of these rows.
std::vector<std::string> kinds_of(const Case &c) {
  const sdtw_problem &p = c.problem;
  std::vector<std::string> kinds{std::string("metric ") + metric_names[p.metric],
                                 std::string("type ") + dtype_names[p.dtype]};
  if (p.band != SDTW_BAND_NONE) kinds.push_back(std::string("band ") + band_names[p.band]);
  if (!c.unit_steps()) kinds.emplace_back("steps");
  if (p.gamma == 0) kinds.emplace_back("gamma 0");
  if (c.all_pairs()) kinds.emplace_back(c.symmetric() ? "symmetric" : "all pairs");
  if (c.recompute) kinds.emplace_back("no state");
  if (!c.tangent_x.empty() || !c.tangent_y.empty()) kinds.emplace_back("tangents");
  if (!c.x_len.empty()) kinds.emplace_back("lengths");
  return kinds;
}

Case case_of(const std::string &line) {
  try {
    return problem(line);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "problem '%s': %s\n", line.c_str(), error.what());
    std::_Exit(2);  // not exit: other threads may be at work
  }
}

void run_problem(const Settings &settings, const std::string &line, bool compares) {
  std::vector<std::string> faults;
  Errors over;
  bool refused = false;
  Case c = case_of(line);
  c.exec.device = settings.device.value_or(c.exec.device);
  c.checks_memory = Random(c.problem.n * 31 + c.problem.m).uniform() < 0.2;
  try {
    prepare_worker(c);
    faults = compute_and_judge(c, compares, over, refused);
  } catch (const std::exception &error) {
    faults.emplace_back(error.what());
  }
  const std::lock_guard<std::mutex> lock(printing);
  tally.problems++, tally.pairs += c.batch();
  tally.refused += refused, tally.compared += compares && !refused;
  tally.failed += !faults.empty();
  for (const std::string &kind : kinds_of(c)) {
    Row &row = tally.rows[kind];
    row.problems += compares && !refused, row.failed += !faults.empty();
    if (worst_of(over) > worst_of(row.worst)) row.line = line;
    row.worst = larger(row.worst, over);
  }
  if (faults.empty() || (!settings.verbose && tally.failed > 40)) return;
  std::printf("FAILED sdtw_differential --device %s --problem '%s'\n", device_names[c.exec.device], line.c_str());
  for (size_t k = 0; k < faults.size() && (settings.verbose || k < 4); ++k) std::printf("  %s\n", faults[k].c_str());
  std::fflush(stdout);
}

std::vector<std::string> lines_of(const char *path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  if (lines.empty()) {
    std::fprintf(stderr, "--lines '%s': there are none\n", path);
    std::exit(2);
  }
  return lines;
}

Settings parse(int argc, char **argv) {
  static const option options[] = {
      {"device", required_argument, nullptr, 'd'},   {"seed", required_argument, nullptr, 's'},
      {"problems", required_argument, nullptr, 'p'}, {"seconds", required_argument, nullptr, 't'},
      {"share", required_argument, nullptr, 'r'},    {"threads", required_argument, nullptr, 'j'},
      {"cells", required_argument, nullptr, 'c'},    {"problem", required_argument, nullptr, 'l'},
      {"lines", required_argument, nullptr, 'i'},    {"thin", no_argument, nullptr, 'n'},
      {"residues", no_argument, nullptr, 'e'},       {"large", no_argument, nullptr, 'g'},
      {"verbose", no_argument, nullptr, 'v'},        {}};
  Settings settings;
  for (int key; (key = getopt_long(argc, argv, "", options, nullptr)) != -1;) switch (key) {
      case 'd': settings.device = device_called(optarg); break;
      case 's': settings.seed = std::strtoull(optarg, nullptr, 10); break;
      case 'p': settings.problems = std::strtoull(optarg, nullptr, 10); break;
      case 't': settings.seconds = std::atof(optarg); break;
      case 'r': settings.share = std::atof(optarg); break;
      case 'j': settings.threads = std::atoi(optarg); break;
      case 'c': settings.cells = std::atoll(optarg); break;
      case 'l': settings.problem = optarg; break;
      case 'i': settings.lines = lines_of(optarg); break;
      case 'n': settings.shapes = Shapes::thin; break;
      case 'e': settings.shapes = Shapes::residues; break;
      case 'g': settings.shapes = Shapes::large; break;
      case 'v': settings.verbose = true; break;
      default: std::exit(2);
    }
  if (optind < argc) {
    std::fprintf(stderr, "'%s' is not an option, and there are no other arguments\n", argv[optind]);
    std::exit(2);
  }
  if (settings.seconds == 0) settings.seconds = settings.lines.empty() ? 60 : HUGE_VAL;
  if (!settings.lines.empty()) settings.problems = std::min<uint64_t>(settings.problems, settings.lines.size());
  if (settings.threads < 1) settings.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return settings;
}

void print_rows(bool with_lines) {
  std::printf("%-20s %9s %8s   largest error over the limit: %8s %8s %8s %8s %8s\n", "of", "compared", "failures",
              "value", "gradient", "E", "value'", "grad'");
  for (const auto &[kind, row] : tally.rows) {
    const Errors &e = row.worst;
    std::printf("%-20s %9" PRIu64 " %8" PRIu64 " %38.2f %8.2f %8.2f %8.2f %8.2f\n", kind.c_str(), row.problems,
                row.failed, e.value, e.gradient, e.alignment, e.value_tangent, e.gradient_tangent);
    if (with_lines && !row.line.empty()) std::printf("    %s\n", row.line.c_str());
  }
}

int run_line(const Settings &settings) {
  std::printf("%s\n", describe(case_of(settings.problem)).c_str());
  run_problem(settings, settings.problem, true);
  print_rows(false);
  skips().print();
  return tally.failed ? 1 : tally.refused ? 77 : 0;
}

}  // namespace

int main(int argc, char **argv) {
  Settings settings = parse(argc, argv);
  options().device = settings.device.value_or(SDTW_CPU);
  if (!settings.problem.empty()) {
    settings.verbose = true;
    return run_line(settings);
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  std::atomic<uint64_t> next{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < settings.threads; ++i)
    workers.emplace_back([&] {
      for (uint64_t k; elapsed() < settings.seconds && (k = next.fetch_add(1)) < settings.problems;) {
        const uint64_t seed = settings.seed + k;
        const std::vector<std::string> &lines = settings.lines;
        run_problem(settings, lines.empty() ? draw_line(seed, settings.cells, settings.shapes) : lines[k],
                    !lines.empty() || Random(seed).uniform() < settings.share);
      }
    });
  for (std::thread &worker : workers) worker.join();
  print_rows(settings.verbose);
  skips().print();
  std::printf("seed %" PRIu64 ": %" PRIu64 " problems of %" PRIu64 " pairs, %" PRIu64 " problems compared, %" PRIu64
              " refused, %" PRIu64 " failed, in %.0f s\n",
              settings.seed, tally.problems, tally.pairs, tally.compared, tally.refused, tally.failed, elapsed());
  return tally.failed == 0 ? 0 : 1;
}
