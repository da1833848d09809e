/* An application that has initialised MPI itself: mpi_app LEVEL, one of single, funneled, serialized, multiple. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include <dabke/dabke.h>

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, dabke_last_error());
  return 1;
}

static int sum_of_ones(int size) {
  float one = 1;
  int64_t shape[] = {1};
  DLTensor tensor = {
      .data = &one, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  dabke_options options = DABKE_OPTIONS_INIT;
  options.op = DABKE_SUM;
  if (dabke_allreduce("ones", &tensor, NULL, &options) != DABKE_OK) return fail("allreduce");
  return one == (float)size ? 0 : fail("sum");
}

int main(int argc, char** argv) {
  const char* const names[] = {"single", "funneled", "serialized", "multiple"};
  const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
  int level = 0, provided = 0, rank = 0, size = 0, sum = 0, one = 1, round;
  for (round = 0; round < 4; ++round) {
    if (argc > 1 && strcmp(argv[1], names[round]) == 0) level = levels[round];
  }
  MPI_Init_thread(&argc, &argv, level, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (round = 0; round < 2; ++round) {
    if (dabke_init(NULL) != DABKE_OK) return fail("init");
    if (dabke_rank() != rank || dabke_size() != size) return fail("place");
    if (dabke_mpi_threads_supported() != (provided == MPI_THREAD_MULTIPLE)) return fail("threads");
    if (sum_of_ones(size) != 0) return 1;
    if (dabke_shutdown() != DABKE_OK) return fail("shutdown");
    /* MPI is still the application's. */
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size) return fail("MPI");
  }
  MPI_Finalize();
  if (rank == 0) printf("well done\n");
  return 0;
}
