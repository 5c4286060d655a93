/* Soft-DTW of two short series and its gradients, in plain C on the CPU.
 *
 *   cc minimal.c $(pkg-config --cflags --libs sdtw) -o minimal && ./minimal
 */
#include <stdio.h>
#include <stdlib.h>

#include "sdtw.h"

static void check(sdtw_status status) {
  if (status == SDTW_STATUS_OK) return;
  fprintf(stderr, "%s: %s\n", sdtw_status_string(status), sdtw_last_error());
  exit(EXIT_FAILURE);
}

static void print(const char *name, const double *a, int count) {
  printf("%s", name);
  for (int i = 0; i < count; ++i) printf(" %9.6f", a[i]);
  printf("\n");
}

int main(void) {
  const double x[] = {1, 2, 3}, y[] = {3, 4, -3};
  double value, grad_x[3], grad_y[3];

  sdtw_problem problem; /* what to compute */
  check(sdtw_problem_init(&problem, sizeof problem));
  problem.dtype = SDTW_F64;
  problem.batch_x = problem.batch_y = 1;
  problem.n = problem.m = 3;
  problem.features = 1;
  problem.gamma = 1.0;

  sdtw_exec exec; /* where: the CPU, all threads, unless told otherwise */
  check(sdtw_exec_init(&exec, sizeof exec));

  sdtw_sizes sizes; /* how much memory: the library itself allocates none */
  check(sdtw_sizes_init(&sizes, sizeof sizes));
  check(sdtw_get_sizes(&problem, &exec, &sizes));

  const sdtw_in in_x = {x, {3, 1, 1}}, in_y = {y, {3, 1, 1}}; /* strides of batch, time step, feature */
  const sdtw_out out_x = {grad_x, {3, 1, 1}}, out_y = {grad_y, {3, 1, 1}};
  sdtw_buffers buffers;
  check(sdtw_buffers_init(&buffers, sizeof buffers));
  buffers.x = in_x;
  buffers.y = in_y;
  buffers.value = &value;
  buffers.grad_x = out_x;
  buffers.grad_y = out_y;
  buffers.state_bytes = sizes.state;
  buffers.workspace_bytes = sizes.forward > sizes.backward ? sizes.forward : sizes.backward;
  buffers.state = malloc(buffers.state_bytes);
  buffers.workspace = malloc(buffers.workspace_bytes);

  check(sdtw_forward(&problem, &buffers, &exec));
  check(sdtw_backward(&problem, &buffers, &exec));
  print("value ", &value, 1);
  print("grad_x", grad_x, 3);
  print("grad_y", grad_y, 3);

  free(buffers.state);
  free(buffers.workspace);
  return 0;
}
