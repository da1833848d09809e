/* An application that starts jobs from communicators of its own.
 *
 *   mpi_comm_app subset | early | null | inter | late
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <dabke/dabke.h>

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, dabke_last_error());
  return 1;
}

static dabke_status init_over(const MPI_Comm* comm) {
  dabke_init_options options = DABKE_INIT_OPTIONS_INIT;
  options.mpi_comm = comm;
  return dabke_init(&options);
}

/* Checks that the job is the communicator, in its order: all ranks gather the world ranks, in rank order. */
static int job_over(MPI_Comm comm) {
  int rank = 0, size = 0, world = 0, other = 0, i;
  int32_t mine;
  int64_t shape[] = {1};
  DLTensor tensor = {
      .data = &mine, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLInt, 32, 1}, .shape = shape};
  dabke_handle* handle = NULL;
  const DLTensor* output = NULL;
  MPI_Group group, all;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &world);
  if (init_over(&comm) != DABKE_OK) return fail("init");
  if (dabke_rank() != rank || dabke_size() != size) return fail("place");
  mine = world;
  if (dabke_allgather_async("places", &tensor, NULL, &handle) != DABKE_OK) return fail("allgather");
  if (dabke_wait(handle, -1) != DABKE_OK || dabke_handle_output(handle, 0, &output) != DABKE_OK)
    return fail("wait");
  if (output->shape[0] != size) return fail("gathered too few");
  MPI_Comm_group(comm, &group);
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  for (i = 0; i < size; ++i) {
    MPI_Group_translate_ranks(group, 1, &i, all, &other);
    if (((const int32_t*)output->data)[i] != other) return fail("order");
  }
  MPI_Group_free(&group);
  MPI_Group_free(&all);
  dabke_handle_free(handle);
  return dabke_shutdown() == DABKE_OK ? 0 : fail("shutdown");
}

/* All ranks except world rank 1 make jobs, in reversed order, while rank 1 does something else. Then all
 * ranks do. */
static int subset(int rank, int size) {
  MPI_Comm some, everybody, alone = MPI_COMM_SELF;
  int round, one = 1, sum = 0;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 1 ? MPI_UNDEFINED : 0, -rank, &some);
  if (some != MPI_COMM_NULL) {
    MPI_Comm copy;
    for (round = 0; round < 2; ++round) {
      if (job_over(some) != 0) return 1;
    }
    MPI_Comm_dup(some, &copy);
    if (job_over(copy) != 0) return 1;
    MPI_Comm_free(&copy);
    if (job_over(some) != 0) return 1;
    /* The communicator is still the application's, and no message of Dabke is in it. */
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, some);
    if (sum != size - 1) return fail("the communicator");
    MPI_Comm_free(&some);
  }
  if (job_over(alone) != 0) return 1;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &everybody);
  if (job_over(everybody) != 0 || job_over(MPI_COMM_WORLD) != 0) return 1;
  MPI_Comm_free(&everybody);
  return 0;
}

static int refused(const MPI_Comm* comm) {
  if (init_over(comm) != DABKE_ERROR_INVALID_ARGUMENT) return fail("not refused");
  printf("%s\n", dabke_last_error());
  return 0;
}

static int inter(int rank) {
  MPI_Comm half, both;
  int result;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 == 0 ? 1 : 0, 7, &both);
  result = refused(&both);
  MPI_Comm_free(&both);
  MPI_Comm_free(&half);
  return result;
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "subset";
  MPI_Comm comm = MPI_COMM_WORLD, none = MPI_COMM_NULL;
  int provided = 0, rank = 0, size = 0, result = 0;
  if (strcmp(what, "early") == 0) return refused(&comm);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(what, "subset") == 0) result = subset(rank, size);
  if (strcmp(what, "null") == 0) result = refused(&none);
  if (strcmp(what, "inter") == 0) result = inter(rank);
  if (result != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
  if (strcmp(what, "late") == 0) {
    if (init_over(&comm) == DABKE_OK) return fail("not refused");
    printf("%s\n", dabke_last_error());
  }
  if (rank == 0 && strcmp(what, "subset") == 0) printf("well done\n");
  return 0;
}
