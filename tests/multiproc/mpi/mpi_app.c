/* An application that has initialised MPI itself:
 *
 *   mpi_app LEVEL              LEVEL is single, funneled, serialized or multiple
 *   mpi_app registered         registered memory grows between collectives of MPI's own
 *   mpi_app multiple finalize  calls MPI_Finalize first and then uses Dabke */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Sums `r + plus` over all ranks r, in place in every element. Returns 0 if every element has the expected
 * sum. */
static int sum_in_place(const char* name, float* data, int64_t elements, int rank, int size, int plus) {
  int64_t shape[] = {elements}, i;
  const float expected = (float)(size * (size - 1) / 2 + size * plus);
  DLTensor tensor = {
      .data = data, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  dabke_options options = DABKE_OPTIONS_INIT;
  options.op = DABKE_SUM;
  for (i = 0; i < elements; ++i) data[i] = (float)(rank + plus);
  if (dabke_allreduce(name, &tensor, NULL, &options) != DABKE_OK) return fail("allreduce");
  for (i = 0; i < elements; ++i) {
    if (data[i] != expected) return fail("sum in registered memory");
  }
  return 0;
}

enum { kGrowths = 5 };

/* MPI gets memory of each kind, also new and freed memory. So the caches of mappings in the libraries below
 * MPI are used. */
static int grow_registered(int rank, int size) {
  const int64_t bytes[kGrowths] = {6 << 20, 9 << 20, 13 << 20, 20 << 20, 33 << 20};
  float* registered[kGrowths];
  char name[32];
  int growth, earlier;
  if (dabke_init(NULL) != DABKE_OK) return fail("init");
  for (growth = 0; growth < kGrowths; ++growth) {
    const int64_t elements = bytes[growth] / (int64_t)sizeof(float);
    float* const own = malloc((size_t)bytes[growth]);
    float* const all = malloc((size_t)bytes[growth]);
    int64_t i;
    registered[growth] = dabke_alloc((size_t)bytes[growth]);
    if (registered[growth] == NULL || own == NULL || all == NULL) return fail("memory");
    for (earlier = 0; earlier <= growth; ++earlier) {
      const int64_t count = bytes[earlier] / (int64_t)sizeof(float);
      snprintf(name, sizeof name, "registered %d", earlier);
      if (sum_in_place(name, registered[earlier], count, rank, size, growth) != 0) return 1;
    }
    for (i = 0; i < elements; ++i) own[i] = registered[growth][i] = 1;
    MPI_Allreduce(own, all, (int)elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, registered[growth], (int)elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (i = 0; i < elements; ++i) {
      if (all[i] != (float)size || registered[growth][i] != (float)size) return fail("MPI's sum");
    }
    free(own);
    free(all);
  }
  for (growth = 0; growth < kGrowths; ++growth) dabke_free(registered[growth]);
  return dabke_shutdown() == DABKE_OK ? 0 : fail("shutdown");
}

static int finalize_too_early(int rank, int size) {
  float one = 1;
  int64_t shape[] = {1};
  DLTensor tensor = {
      .data = &one, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  dabke_status status;
  if (dabke_init(NULL) != DABKE_OK) return fail("init");
  if (sum_of_ones(size) != 0) return 1;
  MPI_Barrier(MPI_COMM_WORLD); /* the sum has ended on all ranks */
  if (rank > 0) {              /* waits for rank 0, which no longer calls it */
    status = dabke_allreduce("late", &tensor, NULL, NULL);
    printf("rank %d while others finalize: %s: %s\n", rank, dabke_status_name(status), dabke_last_error());
    fflush(stdout);
  }
  MPI_Finalize();
  status = dabke_allreduce("after", &tensor, NULL, NULL);
  printf("rank %d after: %s: %s\n", rank, dabke_status_name(status), dabke_last_error());
  if (dabke_shutdown() != DABKE_OK) return fail("shutdown");
  status = dabke_init(NULL);
  printf("rank %d again: %s: %s\n", rank, dabke_status_name(status), dabke_last_error());
  return 0;
}

int main(int argc, char** argv) {
  const char* const names[] = {"single", "funneled", "serialized", "multiple"};
  const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
  int level = 0, provided = 0, rank = 0, size = 0, sum = 0, one = 1, round;
  for (round = 0; round < 4; ++round) {
    if (argc > 1 && strcmp(argv[1], names[round]) == 0) level = levels[round];
  }
  if (argc > 1 && strcmp(argv[1], "registered") == 0) level = MPI_THREAD_MULTIPLE;
  MPI_Init_thread(&argc, &argv, level, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1 && strcmp(argv[1], "registered") == 0) {
    if (grow_registered(rank, size) != 0) return 1;
    MPI_Finalize();
    if (rank == 0) printf("well done\n");
    return 0;
  }
  if (argc > 2) return finalize_too_early(rank, size);
  for (round = 0; round < 2; ++round) {
    if (dabke_init(NULL) != DABKE_OK) return fail("init");
    if (dabke_rank() != rank || dabke_size() != size) return fail("place");
    if (dabke_mpi_threads_supported() != (provided == MPI_THREAD_MULTIPLE)) return fail("threads");
    if (sum_of_ones(size) != 0) return 1;
    if (dabke_shutdown() != DABKE_OK) return fail("shutdown");
    /* MPI still works for the application. */
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size) return fail("MPI");
  }
  MPI_Finalize();
  if (rank == 0) printf("well done\n");
  return 0;
}
