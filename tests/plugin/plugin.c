/* A plugin of somebody else's: it has the library linked in, or comes with it, and exports one function of its own. */
#include "plugin.h"

#include <math.h>
#include <sdtw.h>
#include <stdlib.h>

enum { batch = 64, length = 60 };

__attribute__((visibility("default"))) int plugin_run(int threads);

int plugin_run(int threads) {
  float *const x = calloc(2 * batch * length, sizeof *x), *const grad = calloc(batch * length, sizeof *grad);
  float value[batch];
  sdtw_problem p;
  sdtw_exec e;
  sdtw_buffers b;
  sdtw_sizes s;
  int i, failed;
  sdtw_problem_init(&p, sizeof p);
  sdtw_exec_init(&e, sizeof e);
  sdtw_buffers_init(&b, sizeof b);
  sdtw_sizes_init(&s, sizeof s);
  p.batch_x = p.batch_y = batch;
  p.n = p.m = length;
  p.features = 1;
  e.num_threads = threads;
  if (!x || !grad || sdtw_get_sizes(&p, &e, &s) != SDTW_STATUS_OK) return 1;
  for (i = 0; i < 2 * batch * length; ++i) x[i] = (float)(i % 7);
  b.x.data = x;
  b.y.data = x + batch * length;
  b.grad_x.data = grad;
  b.x.stride[0] = b.y.stride[0] = b.grad_x.stride[0] = length;
  b.x.stride[1] = b.y.stride[1] = b.grad_x.stride[1] = b.x.stride[2] = b.y.stride[2] = b.grad_x.stride[2] = 1;
  b.value = value;
  b.state_bytes = s.state;
  b.state = malloc(s.state);
  b.workspace_bytes = s.forward > s.backward ? s.forward : s.backward;
  b.workspace = malloc(b.workspace_bytes);
  failed = sdtw_forward(&p, &b, &e) != SDTW_STATUS_OK || sdtw_backward(&p, &b, &e) != SDTW_STATUS_OK;
  for (i = 0; i < batch; ++i) failed |= !isfinite(value[i]);
  free(b.state);
  free(b.workspace);
  free(x);
  free(grad);
  return failed ? 2 : 0;
}
