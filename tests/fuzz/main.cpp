// The random driver, for compilers without libFuzzer: runs the given files (or all of a directory), then random strings
// and mutated files, in one process or several. What fails is saved and named with the line that reruns it. The first
// failure ends the run, or of several processes that one, which is begun anew behind it.
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "fuzz.h"
#include "inputs.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace {

using String = std::vector<uint8_t>;

struct Settings {
  uint64_t runs = 0, seed = 1, jobs = 1;
  double seconds = 0;
  std::string save = ".";
  std::vector<std::string> files;
};

// What runs now, for the handler of a crash: which may neither allocate nor print by way of stdio.
const String *current;
char failure_path[512], failure_line[1200];

void save_current() {
  static bool saved = false;
  if (saved || !current) return;
  saved = true;
  const int file = open(failure_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || write(file, current->data(), current->size()) != static_cast<ssize_t>(current->size())) return;
  close(file);
  if (write(STDERR_FILENO, failure_line, std::strlen(failure_line)) < 0) return;
}

void on_signal(int signal) {
  save_current();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void catch_crashes() {
  std::signal(SIGABRT, on_signal);
  if (test::call_before_death(save_current)) return;  // a sanitizer handles the others
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, on_signal);
}

String read(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return String(std::istreambuf_iterator<char>(file), {});
}

std::vector<std::filesystem::path> all_files(const std::vector<std::string> &given) {
  std::vector<std::filesystem::path> result;
  for (const std::string &name : given) {
    if (!std::filesystem::is_directory(name)) {
      result.emplace_back(name);
      continue;
    }
    for (const auto &entry : std::filesystem::directory_iterator(name)) result.push_back(entry.path());
  }
  return result;
}

uint8_t random_byte(test::Random &random) {
  static const uint8_t borders[] = {0, 1, 2, 127, 128, 200, 250, 255};
  return random.uniform() < 0.2 ? borders[random.integer(0, 7)] : static_cast<uint8_t>(random.integer(0, 255));
}

String next_string(test::Random &random, const std::vector<String> &corpus) {
  String bytes;
  if (corpus.empty() || random.uniform() < 0.5) {
    bytes.resize(random.integer(1, random.uniform() < 0.2 ? 400 : 60));
    for (uint8_t &b : bytes) b = random_byte(random);
    return bytes;
  }
  bytes = corpus[random.integer(0, corpus.size() - 1)];
  const auto place = [&](size_t size) { return static_cast<size_t>(random.integer(0, size)); };
  for (int64_t left = random.integer(1, 6); left > 0; --left) {
    const int64_t kind = random.integer(0, 9);
    if (kind < 5 && !bytes.empty()) {
      bytes[place(bytes.size() - 1)] = random_byte(random);
    } else if (kind < 7) {
      bytes.insert(bytes.begin() + place(bytes.size()), random_byte(random));
    } else if (kind < 9 && !bytes.empty()) {
      bytes.erase(bytes.begin() + place(bytes.size() - 1));
    } else {  // another's end
      const String &other = corpus[random.integer(0, corpus.size() - 1)];
      const size_t cut = std::min(place(bytes.size()), other.size());
      bytes.resize(cut);
      bytes.insert(bytes.end(), other.begin() + cut, other.end());
    }
  }
  return bytes;
}

Settings parse(int argc, char **argv) {
  static const option options[] = {
      {"runs", required_argument, nullptr, 'r'}, {"seconds", required_argument, nullptr, 't'},
      {"seed", required_argument, nullptr, 's'}, {"jobs", required_argument, nullptr, 'j'},
      {"save", required_argument, nullptr, 'd'}, {"device", required_argument, nullptr, 'c'},
      {"verbose", no_argument, nullptr, 'v'},    {}};
  Settings settings;
  for (int key; (key = getopt_long(argc, argv, "", options, nullptr)) != -1;) switch (key) {
      case 'r': settings.runs = std::strtoull(optarg, nullptr, 10); break;
      case 't': settings.seconds = std::atof(optarg); break;
      case 's': settings.seed = std::strtoull(optarg, nullptr, 10); break;
      case 'j': settings.jobs = std::max(1ULL, std::strtoull(optarg, nullptr, 10)); break;
      case 'd': settings.save = optarg; break;
      case 'c': test::options().device = test::device_called(optarg); break;
      case 'v': test::options().table = true; break;
      default:
        std::fprintf(stderr,
                     "usage: sdtw_fuzz [--runs N] [--seconds S] [--seed K] [--jobs J] [--save DIR] "
                     "[--device cpu|cuda] [--verbose] [FILES...]\n");
        std::exit(2);
    }
  settings.files.assign(argv + optind, argv + argc);
  return settings;
}

void run_one(const String &bytes, const std::string &path, const char *program) {
  std::snprintf(failure_path, sizeof failure_path, "%s", path.c_str());
  std::snprintf(failure_line, sizeof failure_line, "FAILED: rerun it with   %s %s\n", program, path.c_str());
  current = &bytes;
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  current = nullptr;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Random strings until enough have run or the time is up.
struct Run {
  const Settings &settings;
  const std::vector<String> &corpus;
  const char *program;
  double begin = now();

  double elapsed() const { return now() - begin; }

  // The strings number job, job + jobs, and so on, of which `begun` have been before.
  void job(uint64_t job, uint64_t &begun) const {
    for (uint64_t k; (k = job + begun * settings.jobs) < settings.runs || elapsed() < settings.seconds;) {
      ++begun;
      const uint64_t seed = settings.seed + k;
      test::Random random(seed * 0x9e3779b97f4a7c15u);
      run_one(next_string(random, corpus), settings.save + "/failure-" + std::to_string(seed), program);
    }
  }

  // Each job in a process of its own. begun: in memory that they share. Returns the number of failures.
  int jobs(uint64_t *begun) const {
    constexpr int most_failures = 20;
    std::vector<pid_t> processes(settings.jobs);
    const auto start = [&](uint64_t index) {
      processes[index] = fork();
      if (processes[index] < 0) throw std::runtime_error("cannot fork");
      if (processes[index] > 0) return;
      job(index, begun[index]);
      _exit(0);
    };
    for (uint64_t index = 0; index < settings.jobs; ++index) start(index);
    int failures = 0, status;
    for (pid_t process; (process = wait(&status)) > 0;) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      if (++failures >= most_failures) continue;
      start(static_cast<uint64_t>(std::find(processes.begin(), processes.end(), process) - processes.begin()));
    }
    return failures;
  }
};

}  // namespace

int main(int argc, char **argv) {
  const Settings settings = parse(argc, argv);
  std::filesystem::create_directories(settings.save);
  catch_crashes();
  mallopt(M_MMAP_THRESHOLD, 1 << 30);  // fresh pages for every buffer take longer than most calls
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  std::vector<String> corpus;
  for (const auto &path : all_files(settings.files)) {
    corpus.push_back(read(path));
    run_one(corpus.back(), path.string(), argv[0]);
  }
  const size_t bytes = settings.jobs * sizeof(uint64_t);
  void *const shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::runtime_error("cannot map memory");
  auto *const begun = static_cast<uint64_t *>(shared);
  const Run run{settings, corpus, argv[0]};
  int failures = 0;
  if (settings.jobs == 1)
    run.job(0, begun[0]);
  else
    failures = run.jobs(begun);
  const uint64_t runs = std::accumulate(begun, begun + settings.jobs, uint64_t(0));
  std::printf("seed %" PRIu64 ", %" PRIu64 " jobs: %zu files and %" PRIu64
              " random strings, in %.0f s (%.0f a second)\n",
              settings.seed, settings.jobs, corpus.size(), runs, run.elapsed(),
              static_cast<double>(runs) / std::max(1e-9, run.elapsed()));
  if (failures > 0) std::printf("%d strings failed: see %s\n", failures, settings.save.c_str());
  return failures > 0 ? 1 : 0;
}
