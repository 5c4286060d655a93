// What the library says of itself, its initialisers, and what planning says before any data is there.
#include "bad_calls.h"
#include "catch.h"

using namespace test;

namespace {

template <class Struct>
void check_initialiser(sdtw_status (*init)(Struct *, size_t), const char *name) {
  INFO(name);
  CHECK(init(nullptr, sizeof(Struct)) == SDTW_STATUS_INVALID_ARGUMENT);
  CHECK(std::string(sdtw_last_error()).find(name) != std::string::npos);
  for (const size_t size : {size_t(0), size_t(8), sizeof(Struct) - 8, sizeof(Struct) + 8, SIZE_MAX}) {
    unsigned char storage[2 * sizeof(Struct)], before[2 * sizeof(Struct)];
    std::memset(storage, 0xab, sizeof storage);
    std::memcpy(before, storage, sizeof storage);
    CHECK(init(reinterpret_cast<Struct *>(storage), size) == SDTW_STATUS_INVALID_STRUCT);
    CHECK(std::string(sdtw_last_error()).find("struct_size") != std::string::npos);
    CHECK(std::memcmp(storage, before, sizeof storage) == 0);
  }
}

}  // namespace

TEST_CASE("initialisers refuse what is no struct of theirs, and leave it alone", "[library]") {
  check_initialiser(sdtw_problem_init, "problem");
  check_initialiser(sdtw_exec_init, "exec");
  check_initialiser(sdtw_buffers_init, "buffers");
  check_initialiser(sdtw_sizes_init, "sizes");
}

TEST_CASE("every status has its name", "[library]") {
  const char *const names[] = {"SDTW_STATUS_OK",          "SDTW_STATUS_INVALID_ARGUMENT", "SDTW_STATUS_INVALID_STRUCT",
                               "SDTW_STATUS_UNSUPPORTED", "SDTW_STATUS_BUFFER_TOO_SMALL", "SDTW_STATUS_NOT_BUILT",
                               "SDTW_STATUS_NO_DEVICE",   "SDTW_STATUS_CUDA_ERROR",       "SDTW_STATUS_INTERNAL"};
  for (int32_t status = 0; status < 9; ++status) CHECK(std::string(sdtw_status_string(status)) == names[status]);
  for (const int32_t status : {-1, 9, INT32_MIN, INT32_MAX})
    CHECK(std::string(sdtw_status_string(status)) == "unknown status");
}

TEST_CASE("version and build info", "[library]") {
  CHECK(sdtw_version() == SDTW_VERSION);
  const std::string info = sdtw_build_info();
  const std::string version = std::to_string(SDTW_VERSION / 10000) + "." + std::to_string(SDTW_VERSION / 100 % 100) +
                              "." + std::to_string(SDTW_VERSION % 100);
  CHECK(info.find(version) != std::string::npos);
  CHECK(info.find("baseline") != std::string::npos);
  CHECK(info.find("cuda") != std::string::npos);
  CHECK(info.find('\n') == std::string::npos);
}

TEST_CASE("device availability", "[library]") {
  CHECK(sdtw_device_available(SDTW_CPU) == SDTW_STATUS_OK);
  for (const sdtw_device device : {-1, 2, INT32_MAX}) {
    CHECK(sdtw_device_available(device) == SDTW_STATUS_INVALID_ARGUMENT);
    CHECK(std::string(sdtw_last_error()).find("device") != std::string::npos);
  }
}

TEST_CASE("a GPU that is not there is refused by every call that needs it", "[library]") {
  const sdtw_status status = sdtw_device_available(SDTW_CUDA);
  if (status == SDTW_STATUS_OK) {
    WARN("skipped: there is a GPU");
    return;
  }
  CHECK((status == SDTW_STATUS_NOT_BUILT || status == SDTW_STATUS_NO_DEVICE));
  for (const Function function : {forward, backward, alignment}) {
    World world;
    world.exec.device = SDTW_CUDA;
    // As large as any backend could ask of so small a problem.
    std::vector<std::max_align_t> state(1 << 16), workspace(1 << 16);
    world.buffers.state = state.data();
    world.buffers.workspace = workspace.data();
    world.buffers.state_bytes = world.buffers.workspace_bytes = state.size() * sizeof state[0];
    const auto before = world.snapshot();
    INFO(name_of(function) << ": " << sdtw_last_error());
    CHECK(world.call(function) == status);
    CHECK(world.snapshot() == before);
  }
}

TEST_CASE("an instruction set that the processor lacks is refused by name", "[library]") {
  for (const Backend &backend : all_backends()) {
    if (backend.device != SDTW_CPU) continue;
    World world;
    world.exec.device = SDTW_CPU;
    world.exec.cpu_isa = backend.isa;
    const sdtw_status status = world.call(get_sizes);
    INFO(backend.name << ": " << sdtw_last_error());
    if (available(backend)) {
      CHECK(status == SDTW_STATUS_OK);
    } else {
      CHECK(status == SDTW_STATUS_UNSUPPORTED);
      CHECK(std::string(sdtw_last_error()).find("exec.cpu_isa") != std::string::npos);
    }
  }
}

TEST_CASE("a plan's text is cut to fit and always terminated", "[library]") {
  World world;
  std::vector<char> whole(4096, 'x');
  world.text_argument = whole.data();
  world.capacity = whole.size();
  REQUIRE(world.call(describe_plan) == SDTW_STATUS_OK);
  const std::string text = whole.data();
  CHECK(text.size() > 10);
  for (const size_t capacity : {size_t(1), size_t(2), size_t(10), text.size(), text.size() + 1}) {
    std::vector<char> cut(capacity + 1, 'x');
    world.text_argument = cut.data();
    world.capacity = capacity;
    REQUIRE(world.call(describe_plan) == SDTW_STATUS_OK);
    CHECK(cut.data() == text.substr(0, capacity - 1));
    CHECK(cut[capacity] == 'x');
  }
}

TEST_CASE("state depends on the problem alone, and is checkpoints, not a matrix", "[library]") {
  World world;
  const size_t state = world.sizes.state;
  for (const int32_t threads : {0, 2, 7, 4096}) {
    world.exec.num_threads = threads;
    REQUIRE(world.call(get_sizes) == SDTW_STATUS_OK);
    CHECK(world.sizes.state == state);
  }
  world.exec.num_threads = 1;
  for (const Backend &backend : backends()) {
    world.exec.cpu_isa = backend.isa;
    REQUIRE(world.call(get_sizes) == SDTW_STATUS_OK);
    CHECK(world.sizes.state == state);
  }
  world.exec.flags = SDTW_NO_STATE;
  REQUIRE(world.call(get_sizes) == SDTW_STATUS_OK);
  CHECK(world.sizes.state == 0);

  world.exec.flags = 0;
  world.problem.n = world.problem.m = 4096;
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED}) {
    world.problem.metric = metric;
    world.problem.features = metric == SDTW_PRECOMPUTED ? 0 : 2;
    REQUIRE(world.call(get_sizes) == SDTW_STATUS_OK);
    const size_t matrix = 2 * size_t(4096) * 4096 * sizeof(float);
    CHECK(world.sizes.state < matrix / 4);
    CHECK(world.sizes.forward < matrix / 16);
    CHECK(world.sizes.backward < matrix / 4);
    CHECK(world.sizes.alignment < matrix / 4);
  }
}

TEST_CASE("without state forward runs alone, and backward runs it again", "[library]") {
  World world;
  if (world.exec.device != SDTW_CPU) return;  // its memory is the host's
  world.buffers.state = nullptr;
  world.buffers.state_bytes = 0;
  CHECK(world.call(forward) == SDTW_STATUS_OK);
  CHECK(world.call(backward) == SDTW_STATUS_OK);
  const auto values = [&] {
    const auto *const value = static_cast<const float *>(world.buffers.value);
    return std::vector<float>(value, value + World::batch);
  };
  const std::vector<float> of_forward = values();
  for (const Function function : {backward, alignment, jvp}) {
    std::fill_n(static_cast<float *>(world.buffers.value), World::batch, -1.0f);
    world.exec.flags = 0;
    CHECK(world.call(function) == SDTW_STATUS_OK);
    CHECK(values() == std::vector<float>(World::batch, -1));
    world.exec.flags = SDTW_WITH_VALUE;
    CHECK(world.call(function) == SDTW_STATUS_OK);
    CHECK(values() == of_forward);  // which is exact: all costs are 0
  }
  CHECK(world.call(forward) == SDTW_STATUS_OK);  // writes them whatever the flag says
  world.buffers.workspace_bytes = 0;
  CHECK(world.call(backward) == SDTW_STATUS_BUFFER_TOO_SMALL);
  CHECK(std::string(sdtw_last_error()).find("without state") != std::string::npos);
}

// What forward runs on lies in the state if there is one. Sizes, and whether there is room, need no GPU.
TEST_CASE("without state a forward on a GPU needs workspace, and says so", "[library]") {
  World world;
  world.exec.device = SDTW_CUDA;
  REQUIRE(world.call(get_sizes) == SDTW_STATUS_OK);
  CHECK(world.sizes.forward == 0);
  world.buffers.state = nullptr;
  world.buffers.state_bytes = world.buffers.workspace_bytes = 0;
  CHECK(world.call(forward) == SDTW_STATUS_BUFFER_TOO_SMALL);
  CHECK(std::string(sdtw_last_error()).find("without state") != std::string::npos);
  world.exec.flags = SDTW_NO_STATE;
  REQUIRE(world.call(get_sizes) == SDTW_STATUS_OK);
  CHECK(world.sizes.forward > 0);
  CHECK(world.sizes.state == 0);
}

TEST_CASE("an empty batch needs nothing", "[library]") {
  World world;
  world.problem.batch_x = world.problem.batch_y = 0;
  REQUIRE(world.call(get_sizes) == SDTW_STATUS_OK);
  CHECK(world.sizes.state == 0);
  CHECK(world.sizes.forward == 0);
  CHECK(world.sizes.backward == 0);
  CHECK(world.sizes.alignment == 0);
}
