/* The smallest program: every rank contributes its number plus one, and all ranks get the sum.
 *
 *   dabkerun -np 4 ./hello
 */
#include <stdio.h>
#include <stdlib.h>

#include <dabke/dabke.h>

static void must(dabke_status status) {
  if (status == DABKE_OK) return;
  fprintf(stderr, "hello: %s: %s\n", dabke_status_name(status), dabke_last_error());
  exit(1);
}

int main(void) {
  must(dabke_init(NULL));

  float number = (float)dabke_rank() + 1;
  int64_t shape[] = {1};
  DLTensor tensor = {
      .data = &number, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  dabke_options options = DABKE_OPTIONS_INIT;
  options.op = DABKE_SUM;
  must(dabke_allreduce("number", &tensor, NULL, &options)); /* no output: in place */

  printf("rank %d of %d: the sum is %g\n", dabke_rank(), dabke_size(), (double)number);
  must(dabke_shutdown());
  return 0;
}
