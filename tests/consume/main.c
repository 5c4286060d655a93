/* The whole of a small program against the installed library: two series, their soft-DTW and its gradient; and NaN. */
#include <math.h>
#include <sdtw.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  const double x[4] = {1, 2, 2, 3}, y[4] = {1, 2, 3, 4}, nan_inside[4] = {1, NAN, 3, 4};
  double value = 0, grad_x[4];
  sdtw_problem p;
  sdtw_exec e;
  sdtw_buffers b;
  sdtw_sizes s;
  int failed;
  sdtw_problem_init(&p, sizeof p);
  sdtw_exec_init(&e, sizeof e);
  sdtw_buffers_init(&b, sizeof b);
  sdtw_sizes_init(&s, sizeof s);
  p.dtype = SDTW_F64;
  p.batch_x = p.batch_y = p.features = 1;
  p.n = p.m = 4;
  if (sdtw_get_sizes(&p, &e, &s) != SDTW_STATUS_OK) return 1;
  b.x.data = x;
  b.y.data = y;
  b.x.stride[1] = b.y.stride[1] = b.grad_x.stride[1] = 1;
  b.value = &value;
  b.grad_x.data = grad_x;
  b.state_bytes = s.state;
  b.state = malloc(s.state);
  b.workspace_bytes = s.forward > s.backward ? s.forward : s.backward;
  b.workspace = malloc(b.workspace_bytes);
  failed = sdtw_forward(&p, &b, &e) != SDTW_STATUS_OK || sdtw_backward(&p, &b, &e) != SDTW_STATUS_OK;
  printf("%s\nvalue %.10f, gradient of x %g %g %g %g\n", sdtw_build_info(), value, grad_x[0], grad_x[1], grad_x[2],
         grad_x[3]);
  if (failed) fprintf(stderr, "%s\n", sdtw_last_error());
  failed |= fabs(value - -0.8954437807) > 1e-9;
  b.y.data = nan_inside;
  failed |= sdtw_forward(&p, &b, &e) != SDTW_STATUS_OK || !isnan(value);
  free(b.state);
  free(b.workspace);
  return failed;
}
