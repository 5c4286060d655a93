/* Strict C99: the header compiles with -std=c99 -pedantic-errors, every function links, and the defaults are those
 * that the header states. */
#include <sdtw.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(int condition, const char *what) {
  if (!condition) {
    fprintf(stderr, "failed: %s (last error: %s)\n", what, sdtw_last_error());
    ++failures;
  }
}

static void check_defaults(void) {
  sdtw_problem p;
  sdtw_exec e;
  sdtw_buffers b;
  sdtw_sizes s;
  int k;
  memset(&b, 0xff, sizeof b);
  expect(sdtw_problem_init(&p, sizeof p) == SDTW_STATUS_OK, "sdtw_problem_init");
  expect(sdtw_exec_init(&e, sizeof e) == SDTW_STATUS_OK, "sdtw_exec_init");
  expect(sdtw_buffers_init(&b, sizeof b) == SDTW_STATUS_OK, "sdtw_buffers_init");
  expect(sdtw_sizes_init(&s, sizeof s) == SDTW_STATUS_OK, "sdtw_sizes_init");
  expect(p.struct_size == sizeof p && e.struct_size == sizeof e, "struct_size of problem and exec");
  expect(b.struct_size == sizeof b && s.struct_size == sizeof s, "struct_size of buffers and sizes");
  expect(p.metric == SDTW_SQEUCLIDEAN && p.dtype == SDTW_F32 && p.band == SDTW_BAND_NONE, "problem defaults");
  expect(p.gamma == 1 && p.length_bits == 64 && p.flags == 0 && p.batch_x == 0, "more problem defaults");
  for (k = 0; k < 3; ++k) expect(p.step_weight[k] == 1 && p.step_penalty[k] == 0, "step defaults");
  expect(e.device == SDTW_CPU && e.num_threads == 0 && e.cpu_isa == SDTW_CPU_ISA_AUTO, "exec defaults");
  expect(e.stream == NULL, "the default stream");
  expect(b.x.data == NULL && b.workspace_bytes == 0 && b.grad_y_tangent.data == NULL, "buffers defaults");
  expect(s.state == 0 && s.forward == 0 && s.backward == 0 && s.alignment == 0 && s.jvp == 0, "sizes defaults");
}

/* One pair with gamma near 0 is hard DTW, which is easy to tell: (1, 2, 2, 3) against (1, 2, 3, 4) costs 1. */
static void check_call(void) {
  static const float x[4] = {1, 2, 2, 3}, y[4] = {1, 2, 3, 4};
  static double memory[1 << 17];
  float value = -1, grad_x[4], grad_y[4], alignment[16];
  char text[256];
  sdtw_problem p;
  sdtw_exec e;
  sdtw_buffers b;
  sdtw_sizes s;
  sdtw_problem_init(&p, sizeof p);
  sdtw_exec_init(&e, sizeof e);
  sdtw_buffers_init(&b, sizeof b);
  sdtw_sizes_init(&s, sizeof s);
  p.batch_x = p.batch_y = p.features = 1;
  p.n = p.m = 4;
  p.gamma = 1e-4;
  e.num_threads = 1;
  expect(sdtw_get_sizes(&p, &e, &s) == SDTW_STATUS_OK, "sdtw_get_sizes");
  expect(sdtw_describe(&p, &e, text, sizeof text) == SDTW_STATUS_OK && text[0] != 0, "sdtw_describe");
  expect(s.state <= sizeof memory / 2 && s.forward <= sizeof memory / 2 && s.backward <= sizeof memory / 2 &&
             s.alignment <= sizeof memory / 2,
         "a small problem needs little memory");
  b.x.data = x;
  b.y.data = y;
  b.x.stride[1] = b.y.stride[1] = 1;
  b.value = &value;
  b.grad_x.data = grad_x;
  b.grad_y.data = grad_y;
  b.grad_x.stride[1] = b.grad_y.stride[1] = 1;
  b.alignment.data = alignment;
  b.alignment.stride[1] = 4;
  b.alignment.stride[2] = 1;
  b.state = memory;
  b.state_bytes = sizeof memory / 2;
  b.workspace = memory + (1 << 16);
  b.workspace_bytes = sizeof memory / 2;
  expect(sdtw_forward(&p, &b, &e) == SDTW_STATUS_OK, "sdtw_forward");
  expect(value > 0.999f && value < 1.001f, "the value");
  expect(sdtw_backward(&p, &b, &e) == SDTW_STATUS_OK, "sdtw_backward");
  expect(grad_x[3] < -1.999f && grad_x[3] > -2.001f && grad_y[3] > 1.999f && grad_y[3] < 2.001f, "the gradients");
  expect(sdtw_alignment(&p, &b, &e) == SDTW_STATUS_OK, "sdtw_alignment");
  expect(alignment[0] > 0.999f && alignment[15] > 0.999f, "the alignment");
  expect(sdtw_jvp(&p, &b, &e) != SDTW_STATUS_OK, "sdtw_jvp without a tangent");
}

int main(void) {
  expect(sdtw_version() == SDTW_VERSION, "sdtw_version");
  expect(strlen(sdtw_build_info()) > 0, "sdtw_build_info");
  expect(strcmp(sdtw_status_string(SDTW_STATUS_OK), "SDTW_STATUS_OK") == 0, "sdtw_status_string");
  expect(strcmp(sdtw_last_error(), "") == 0, "no error yet");
  expect(sdtw_device_available(SDTW_CPU) == SDTW_STATUS_OK, "sdtw_device_available");
  check_defaults();
  check_call();
  return failures;
}
