// The test program's main: chooses the device, says what it runs on, and skips visibly what the machine lacks.
#define CATCH_CONFIG_RUNNER
#include <cstdio>
#include <regex>
#include <string>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "backends.h"
#include "catch.h"
#include "skips.h"

namespace {

constexpr int skipped = 77;  // what CTest's SKIP_RETURN_CODE is set to

void announce() {
  std::printf("%s\n", sdtw_build_info());
  for (const test::Backend &backend : test::all_backends())
    std::printf("  %s: %s\n", backend.name, test::available(backend) ? "tested" : "SKIPPED, not on this machine");
  std::fflush(stdout);
}

// Of a test for one device alone, marked [cpu] or [cuda], the other has nothing to run.
void leave_out_other_device(std::vector<std::string> &specs) {
  const std::string others = test::options().device == SDTW_CPU ? "~[cuda]" : "~[cpu]";
  if (specs.empty()) specs.emplace_back();
  for (std::string &spec : specs)  // each has alternatives, separated by commas that no backslash precedes
    spec = others + std::regex_replace(spec, std::regex(R"(([^\\]),)"), "$1," + others);
}

// Of what is freed nothing goes back to the system, in small blocks either (memory.cpp): fresh pages take long.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

}  // namespace

int main(int argc, char **argv) {
  keep_freed_memory();
  Catch::Session session;
  std::string device = "cpu";
  session.cli(session.cli() | catch_cli::Opt(device, "cpu|cuda")["--device"]("the device to test (default: cpu)") |
              catch_cli::Opt(test::options().table)["--table"]("print measured errors"));
  const int usage_error = session.applyCommandLine(argc, argv);
  if (usage_error != 0) return usage_error;
  test::options().device = test::device_called(device);
  auto config = session.configData();
  leave_out_other_device(config.testsOrTags);
  session.useConfigData(config);
  if (config.showHelp || config.listTests || config.listTags || config.listReporters) return session.run();

  announce();
  if (sdtw_device_available(test::options().device) != SDTW_STATUS_OK) {
    std::printf("SKIPPED: %s\n", sdtw_last_error());
    return skipped;
  }
#if CATCH_VERSION_MAJOR < 3
  session.configData().warnings = Catch::WarnAbout::NoTests;  // version 3 fails without tests of itself
#endif
  const int failed = session.run();
  test::skips().print();
  return failed;
}
