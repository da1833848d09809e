/* The C API from C11, in a job of one rank: every function, its results and its refusals. */
#define _POSIX_C_SOURCE 200809L
#include <dabke/dabke.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int failures = 0;
static int checks = 0;

#define CHECK(condition)                                                                          \
  do {                                                                                            \
    ++checks;                                                                                     \
    if (!(condition)) {                                                                           \
      ++failures;                                                                                 \
      printf("%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition, dabke_last_error()); \
    }                                                                                             \
  } while (0)
#define CHECK_SAYS(text) CHECK(strstr(dabke_last_error(), text) != NULL)

static DLTensor tensor_of(void* data, uint8_t code, uint8_t bits, int32_t ndim, int64_t* shape) {
  DLTensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = ndim;
  tensor.dtype.code = code;
  tensor.dtype.bits = bits;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  return tensor;
}

static DLTensor floats(float* data, int64_t* count) { return tensor_of(data, kDLFloat, 32, 1, count); }

static void before_init(void) {
  float x = 1;
  int64_t one = 1;
  DLTensor t = floats(&x, &one);
  dabke_handle* handle = (dabke_handle*)&x;
  dabke_statistics statistics;
  CHECK(dabke_is_initialized() == 0);
  CHECK(dabke_rank() == -1 && dabke_size() == -1 && dabke_local_rank() == -1 && dabke_local_size() == -1);
  CHECK(dabke_cross_rank() == -1 && dabke_cross_size() == -1 && dabke_is_homogeneous() == -1);
  CHECK(dabke_allreduce_async("x", &t, NULL, NULL, &handle) == DABKE_ERROR_NOT_INITIALIZED);
  CHECK(handle == NULL);
  CHECK_SAYS("dabke_init");
  CHECK(dabke_barrier(NULL) == DABKE_ERROR_NOT_INITIALIZED);
  statistics.struct_size = sizeof statistics;
  CHECK(dabke_get_statistics(&statistics) == DABKE_ERROR_NOT_INITIALIZED);
  CHECK(dabke_abort("x") == DABKE_ERROR_NOT_INITIALIZED);
  CHECK(dabke_shutdown() == DABKE_OK);
  CHECK(dabke_backend_enabled("gloo") == 0);
}

static void names_of_dtypes(void) {
  DLDataType dtype;
  const char* name;
  size_t i;
  int seen = 0;
  for (i = 0; (name = dabke_dtype_name(i, &dtype)) != NULL; ++i) {
    CHECK(dtype.lanes == 1 && dabke_dtype_name(i, NULL) == name);
    if (strcmp(name, "bfloat16") == 0) seen += dtype.code == kDLBfloat && dtype.bits == 16;
    if (strcmp(name, "uint64") == 0) seen += dtype.code == kDLUInt && dtype.bits == 64;
  }
  CHECK(seen == 2 && dabke_dtype_name(i + 1, &dtype) == NULL);
}

static int count_of_ops(void) {
  int op = 0;
  while (strcmp(dabke_reduce_op_name((dabke_reduce_op)op), "unknown") != 0) ++op;
  return op;
}

static void version_and_tables(void) {
  dabke_config_row row;
  size_t i;
  int seen = 0;
  CHECK(strcmp(dabke_version(), "0.1.0") == 0);
  CHECK(dabke_version_number() == 100);
  CHECK(strcmp(dabke_status_name(DABKE_ERROR_PEER_LOST), "peer_lost") == 0);
  CHECK(strlen(dabke_status_text(DABKE_ERROR_MISMATCH)) > 0);
  CHECK(strcmp(dabke_status_name((dabke_status)999), "unknown") == 0);
  CHECK(strcmp(dabke_reduce_op_name(DABKE_BITWISE_XOR), "bitwise_xor") == 0);
  CHECK(strcmp(dabke_reduce_op_name((dabke_reduce_op)999), "unknown") == 0);
  CHECK(strcmp(dabke_compression_name(DABKE_COMPRESSION_BFLOAT16), "bfloat16") == 0);
  CHECK(strcmp(dabke_compression_name(DABKE_COMPRESSION_DEFAULT), "default") == 0);
  CHECK(strcmp(dabke_compression_name((dabke_compression)999), "unknown") == 0);
  CHECK(strcmp(dabke_collective_name(DABKE_BARRIER), "barrier") == 0);
  CHECK(strcmp(dabke_collective_name((dabke_collective)999), "unknown") == 0);
  names_of_dtypes();
  CHECK(dabke_backend_built("gloo") == 1 && dabke_backend_built("shm") == 1 &&
        dabke_backend_built("nccl") == HAS_NCCL && dabke_backend_built(NULL) == 0);
  CHECK(dabke_controller_built("tcp") == 1 && dabke_controller_built("mpi") == dabke_backend_built("mpi") &&
        dabke_controller_built("shm") == 1);
  CHECK(dabke_mpi_threads_supported() == -1);
  for (i = 0; i < dabke_config_count(); ++i) {
    row.struct_size = sizeof row;
    CHECK(dabke_config_get(i, &row) == DABKE_OK);
    CHECK(strncmp(row.name, "DABKE_", 6) == 0 && strncmp(row.flag, "--", 2) == 0 && row.help[0] != '\0');
    if (strcmp(row.name, "DABKE_FUSION_THRESHOLD") == 0) {
      ++seen;
      CHECK(strcmp(row.horovod_name, "HOROVOD_FUSION_THRESHOLD") == 0);
      CHECK(strcmp(row.default_value, "134217728") == 0);
    }
  }
  CHECK(seen == 1);
  row.struct_size = sizeof row;
  CHECK(dabke_config_get(dabke_config_count(), &row) == DABKE_ERROR_INVALID_ARGUMENT);
}

static void init_and_settings(void) {
  const char* bad_value[] = {"FUSION_THRESHOLD=lots", NULL};
  const char* bad_signal[] = {"DUMP_SIGNAL=SEGV", NULL};
  const char* bad_name[] = {"NO_SUCH_KNOB=1", NULL};
  const char* good[] = {"DABKE_CYCLE_TIME=2.5", "STALL_CHECK_TIME_SECONDS=7", NULL};
  dabke_init_options options = DABKE_INIT_OPTIONS_INIT;
  dabke_config_row row;
  size_t i;
  options.settings = bad_value;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("DABKE_FUSION_THRESHOLD=lots");
  CHECK_SAYS("whole number of bytes");
  options.settings = bad_signal;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("DABKE_DUMP_SIGNAL=SEGV is not valid: expected one of USR1 USR2");
  options.settings = bad_name;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("NO_SUCH_KNOB=1");
  options.settings = good;
  options.struct_size = 3;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("struct_size is 3");
  options.struct_size = sizeof options;
  options.mpi_comm = &options;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("neither MPICH nor Open MPI is in this process");
  options.mpi_comm = NULL;
  CHECK(dabke_init(&options) == DABKE_OK);
  CHECK(dabke_init(NULL) == DABKE_ERROR_ALREADY_INITIALIZED);
  for (i = 0; i < dabke_config_count(); ++i) {
    row.struct_size = sizeof row;
    CHECK(dabke_config_get(i, &row) == DABKE_OK);
    if (strcmp(row.name, "DABKE_CYCLE_TIME") == 0) CHECK(strcmp(row.value, "2.5") == 0);
  }
  CHECK(dabke_shutdown() == DABKE_OK);
  CHECK(dabke_init(NULL) == DABKE_OK);
  CHECK(dabke_is_initialized() == 1 && dabke_rank() == 0 && dabke_size() == 1 && dabke_is_homogeneous() == 1);
  CHECK(dabke_local_size() == 1 && dabke_cross_size() == 1);
  CHECK(dabke_backend_enabled("gloo") == 1 && dabke_controller_enabled("tcp") == 1);
}

/* The exchange of process 0 in a job of one: its own block is the whole result. */
static int alone(void* context, const void* mine, void* all, size_t capacity) {
  ++*(int*)context;
  if (capacity > 4096) return 1;
  memcpy(all, mine, capacity);
  return 0;
}
static int refused_exchange(void* context, const void* mine, void* all, size_t capacity) {
  (void)alone(context, mine, all, capacity);
  return 42;
}

static void start_from_a_program(void) {
  dabke_init_options options = DABKE_INIT_OPTIONS_INIT;
  const int32_t ranks[] = {0, 1};
  int calls = 0;
  options.rank = 1;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("rank is given but exchange is not");
  options.size = 2;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("size is given but exchange is not");
  options.rank = options.size = 0;
  options.ranks = ranks;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("ranks is given but exchange is not");
  options.ranks = NULL;
  options.exchange = alone;
  options.exchange_context = &calls;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("exchange is given but size is 0");
  options.size = 1;
  options.rank = 1;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("rank is 1, but must be this process's number among those that exchange reaches, from 0 to 0");
  options.rank = 0;
  options.mpi_comm = &options;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("exchange and mpi_comm are both given");
  options.mpi_comm = NULL;
  CHECK(calls == 0);
  options.ranks_count = 1;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("ranks_count is 1, but ranks is NULL");
  options.ranks = ranks;
  options.ranks_count = 2;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("ranks_count is 2; a job has from 1 to all 1");
  options.ranks = ranks + 1;
  options.ranks_count = 1;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("ranks has 1, but the processes that exchange reaches go from 0 to 0");
  options.ranks = NULL;
  options.ranks_count = 0;
  options.exchange = refused_exchange;
  CHECK(dabke_init(&options) == DABKE_ERROR_TRANSPORT);
  CHECK_SAYS("returned 42 on process 0 of 1, in call 1 of 2");
  CHECK(calls == 8); /* two calls in each of the last four inits, although they failed */
  options.exchange = alone;
  CHECK(dabke_init(&options) == DABKE_OK && calls == 10);
  CHECK(dabke_rank() == 0 && dabke_size() == 1);
  CHECK(dabke_init(&options) == DABKE_ERROR_ALREADY_INITIALIZED && calls == 10);
  CHECK(dabke_shutdown() == DABKE_OK);
  /* An older header has no `exchange`, so init does not read it. */
  options.struct_size = offsetof(dabke_init_options, rank);
  CHECK(dabke_init(&options) == DABKE_OK && calls == 10);
  CHECK(dabke_shutdown() == DABKE_OK);
}

static void process_sets_of_init(void) {
  const int32_t world = 0;
  const int32_t* lists[] = {&world};
  size_t sizes[] = {1};
  dabke_init_options options = DABKE_INIT_OPTIONS_INIT;
  options.process_set_ranks = lists;
  options.process_set_sizes = sizes;
  options.process_set_count = 1;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("process sets '0' (from DABKE_PROCESS_SETS, then from dabke_init's options)");
  CHECK_SAYS("a set of ranks 0 exists already: the world");
  sizes[0] = 0;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("process set 0 of the options has no ranks");
  options.process_set_sizes = NULL;
  CHECK(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("process_set_count is 1, but");
  CHECK(dabke_is_initialized() == 0);
}

static void structs_grow(void) {
  struct {
    dabke_options known;
    long tail[2];
  } longer;
  dabke_options init = DABKE_OPTIONS_INIT;
  float x = 3;
  int64_t one = 1;
  DLTensor t = floats(&x, &one);
  memset(&longer, 0, sizeof longer);
  longer.known = init;
  longer.known.struct_size = sizeof longer;
  longer.known.postscale_factor = 2;
  CHECK(dabke_allreduce("grown", &t, NULL, &longer.known) == DABKE_OK);
  CHECK(x == 6);
  longer.tail[1] = 1;
  CHECK(dabke_allreduce("grown", &t, NULL, &longer.known) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("newer Dabke");
  init.struct_size = offsetof(dabke_options, prescale_factor); /* the size that an older header passes */
  init.op = DABKE_SUM;
  CHECK(dabke_allreduce("shrunk", &t, NULL, &init) == DABKE_OK);
  CHECK(x == 6);
}

static void every_collective(void) {
  float in[6] = {1, 2, 3, 4, 5, 6};
  float out[6] = {0};
  int64_t shape[2] = {3, 2};
  DLTensor a = tensor_of(in, kDLFloat, 32, 2, shape);
  DLTensor b = tensor_of(out, kDLFloat, 32, 2, shape);
  const DLTensor* group_in[2];
  const DLTensor* result = NULL;
  const char* names[2] = {"g1", "g2"};
  const int64_t* splits = NULL;
  size_t count = 0;
  int32_t last = -1;
  dabke_handle* handle = NULL;
  dabke_options options = DABKE_OPTIONS_INIT;
  group_in[0] = &a;
  group_in[1] = &b;

  CHECK(dabke_allreduce("r", &a, &b, NULL) == DABKE_OK && out[5] == 6);
  CHECK(dabke_broadcast("b", &a, NULL, NULL) == DABKE_OK && in[0] == 1);
  CHECK(dabke_reducescatter("s", &a, &b, NULL) == DABKE_OK && out[0] == 1);
  CHECK(dabke_reducescatter("s", &a, NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT);

  CHECK(dabke_allgather("g", &a, NULL, &handle) == DABKE_OK);
  CHECK(dabke_handle_output_count(handle) == 1);
  CHECK(dabke_handle_output(handle, 0, &result) == DABKE_OK);
  CHECK(result->ndim == 2 && result->shape[0] == 3 && ((float*)result->data)[4] == 5);
  CHECK(dabke_handle_output(handle, 1, &result) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_handle_received_splits(handle, &splits, &count) == DABKE_ERROR_INVALID_ARGUMENT);
  dabke_handle_free(handle);

  CHECK(dabke_alltoall("a", &a, NULL, &handle) == DABKE_OK);
  CHECK(dabke_handle_received_splits(handle, &splits, &count) == DABKE_OK && count == 1 && splits[0] == 3);
  dabke_handle_free(handle);

  CHECK(dabke_grouped_allreduce(names, group_in, NULL, 2, NULL) == DABKE_OK);
  CHECK(dabke_grouped_allgather(names, group_in, 2, NULL, &handle) == DABKE_OK);
  CHECK(dabke_handle_output_count(handle) == 2);
  dabke_handle_free(handle);
  CHECK(dabke_grouped_reducescatter_async(names, group_in, NULL, 2, NULL, &handle) == DABKE_OK);
  CHECK(dabke_wait(handle, 60) == DABKE_OK);
  dabke_handle_free(handle);
  CHECK(dabke_grouped_allreduce(names, group_in, NULL, 0, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  /* A refused call sets the handle to NULL, whatever value it had. */
  handle = (dabke_handle*)&group_in;
  CHECK(dabke_grouped_allreduce_async(names, group_in, NULL, 0, NULL, &handle) ==
        DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(handle == NULL);
  handle = (dabke_handle*)&group_in;
  CHECK(dabke_grouped_allgather(NULL, group_in, 2, NULL, &handle) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(handle == NULL);

  CHECK(dabke_barrier(NULL) == DABKE_OK);
  CHECK(dabke_join(NULL, &last) == DABKE_OK && last == 0);
  options.device = 0;
  CHECK(dabke_join(&options, &last) == DABKE_OK && last == 0); /* there is no GPU here, so the host is used */
  options.device = -2;
  CHECK(dabke_join(&options, &last) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("device -2");
  CHECK(dabke_barrier(&options) == DABKE_OK); /* only join reads `device` */
}

static void a_pending_name_is_refused_by_the_call(void) {
  const char* const settings[] = {"DUPLICATE_NAMES=error", NULL};
  float x = 1, y = 2;
  int64_t one = 1;
  DLTensor a = floats(&x, &one), b = floats(&y, &one);
  dabke_init_options start = DABKE_INIT_OPTIONS_INIT;
  dabke_options options = DABKE_OPTIONS_INIT;
  dabke_handle *first = NULL, *second = NULL;
  start.settings = settings;
  CHECK(dabke_init(&start) == DABKE_OK);
  options.group = "pair";
  options.group_size = 2;
  CHECK(dabke_allreduce_async("p1", &a, NULL, &options, &first) == DABKE_OK);
  second = first;
  CHECK(dabke_allreduce_async("p1", &b, NULL, NULL, &second) == DABKE_ERROR_DUPLICATE_NAME && second == NULL);
  CHECK_SAYS("'p1': a tensor of this name is still pending");
  CHECK(dabke_allreduce_async("p2", &b, NULL, &options, &second) == DABKE_OK);
  CHECK(dabke_wait(first, 60) == DABKE_OK && dabke_wait(second, 60) == DABKE_OK);
  dabke_handle_free(first);
  dabke_handle_free(second);
  CHECK(dabke_allreduce("p1", &a, NULL, NULL) == DABKE_OK);
  CHECK(dabke_shutdown() == DABKE_OK);
}

/* With one rank, every reduction returns its input. */
static void every_operation(void) {
  int32_t in[4] = {1, -2, 3, -4}, out[4];
  int64_t four = 4;
  DLTensor a = tensor_of(in, kDLInt, 32, 1, &four), b = tensor_of(out, kDLInt, 32, 1, &four);
  dabke_options options = DABKE_OPTIONS_INIT;
  int op;
  for (op = 0; op < count_of_ops(); ++op) {
    if (op == DABKE_ADASUM) continue; /* not implemented */
    options.op = (dabke_reduce_op)op;
    memset(out, 0, sizeof out);
    CHECK(dabke_allreduce("op", &a, &b, &options) == DABKE_OK && memcmp(in, out, sizeof in) == 0);
    memset(out, 0, sizeof out);
    CHECK(dabke_reducescatter("op s", &a, &b, &options) == DABKE_OK && memcmp(in, out, sizeof in) == 0);
  }
}

static void outputs_that_are_given(void) {
  float in[6] = {1, 2, 3, 4, 5, 6}, out[8] = {0};
  int64_t shape[2] = {3, 2}, other[2] = {4, 2}, splits[1] = {3};
  const int64_t* received = NULL;
  size_t count = 0;
  DLTensor a = tensor_of(in, kDLFloat, 32, 2, shape), b = tensor_of(out, kDLFloat, 32, 2, shape);
  DLTensor longer = tensor_of(out, kDLFloat, 32, 2, other);
  const DLTensor* result = NULL;
  dabke_options options = DABKE_OPTIONS_INIT;
  dabke_handle* handle = NULL;
  CHECK(dabke_allgather_into("g", &a, &b, NULL) == DABKE_OK && out[5] == 6);
  memset(out, 0, sizeof out);
  options.splits = splits;
  options.splits_count = 1;
  CHECK(dabke_alltoall_into_async("a", &a, &b, &options, &handle) == DABKE_OK);
  CHECK(dabke_wait(handle, 60) == DABKE_OK && out[5] == 6);
  CHECK(dabke_handle_output(handle, 0, &result) == DABKE_OK && result->data == out && result->shape[0] == 3);
  CHECK(dabke_handle_received_splits(handle, &received, &count) == DABKE_OK && count == 1 &&
        received[0] == 3);
  dabke_handle_free(handle);
  CHECK(dabke_alltoall_into("a", &a, &b, NULL) == DABKE_OK);
  CHECK(dabke_allgather_into("g", &a, &longer, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("on rank 0 the output of tensor 'g' is float32 [4, 2], but the result is float32 [3, 2]");
  CHECK(dabke_allgather_into_async("g", &a, &longer, NULL, &handle) == DABKE_OK);
  CHECK(dabke_wait(handle, 60) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(strstr(dabke_handle_message(handle), "[4, 2]") != NULL);
  dabke_handle_free(handle);
  CHECK(dabke_allgather_into("g", &a, NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("allgather 'g', output: the tensor is NULL");
  CHECK(dabke_alltoall_into("a", &a, NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_allgather_into("g", &a, &a, NULL) == DABKE_OK &&
        dabke_alltoall_into("a", &a, &a, NULL) == DABKE_OK);
  b.dtype.bits = 16;
  handle = (dabke_handle*)&a;
  CHECK(dabke_allgather_into_async("g", &a, &b, NULL, &handle) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(handle == NULL);
  CHECK_SAYS("the output of tensor 'g' is float16 [3, 2], but the input is float32 [3, 2]");
}

static void members_of_a_group_wait_for_each_other(void) {
  float x = 1, y = 2;
  int64_t one = 1;
  DLTensor a = floats(&x, &one), b = floats(&y, &one);
  dabke_options options = DABKE_OPTIONS_INIT;
  dabke_handle *first = NULL, *second = NULL;
  options.group = "pair";
  options.group_size = 2;
  CHECK(dabke_allreduce_async("p1", &a, NULL, &options, &first) == DABKE_OK);
  CHECK(dabke_wait(first, 0.05) == DABKE_IN_PROGRESS);
  CHECK(dabke_allreduce_async("p2", &b, NULL, &options, &second) == DABKE_OK);
  CHECK(dabke_wait(first, 60) == DABKE_OK && dabke_wait(second, 60) == DABKE_OK);
  dabke_handle_free(first);
  dabke_handle_free(second);
}

static int third_time(void* context) {
  /* Inside the check of a wait, calls that wait are refused. */
  if (dabke_barrier(NULL) != DABKE_ERROR_INVALID_ARGUMENT) return 1;
  if (dabke_shutdown() != DABKE_ERROR_INVALID_ARGUMENT) return 1;
  return ++*(int*)context == 3;
}

static int never(void* context) { return (void)context, 0; }

static void a_check_stops_a_wait(void) {
  float x = 1, y = 2;
  int64_t one = 1;
  int times = 0;
  DLTensor a = floats(&x, &one), b = floats(&y, &one);
  dabke_options options = DABKE_OPTIONS_INIT;
  dabke_handle *first = NULL, *second = NULL;
  options.group = "stopped pair";
  options.group_size = 2;
  CHECK(dabke_allreduce_async("s1", &a, NULL, &options, &first) == DABKE_OK);
  CHECK(dabke_wait_checking(first, -1, third_time, &times) == DABKE_ERROR_INTERRUPTED && times == 3);
  CHECK_SAYS("the wait for allreduce 's1' was stopped by its check; the operation goes on");
  CHECK(dabke_handle_status(first) == DABKE_IN_PROGRESS);
  CHECK(dabke_wait_checking(first, 0.2, never, NULL) == DABKE_IN_PROGRESS);
  CHECK(dabke_wait_checking(first, 0, NULL, NULL) == DABKE_IN_PROGRESS);
  CHECK(dabke_allreduce_async("s2", &b, NULL, &options, &second) == DABKE_OK);
  CHECK(dabke_wait_checking(first, 10, never, NULL) == DABKE_OK);
  CHECK(dabke_wait_checking(second, -1, NULL, NULL) == DABKE_OK);
  CHECK(dabke_wait_checking(NULL, 0, never, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  dabke_handle_free(first);
  dabke_handle_free(second);
}

/* With `wait_follows` an operation completes, whichever call follows instead of the wait. */
static void what_is_left_to_a_wait_completes(void) {
  float x = 1;
  int64_t one = 1;
  int i;
  const struct timespec moment = {0, 1000000};
  DLTensor a = floats(&x, &one);
  dabke_options options = DABKE_OPTIONS_INIT;
  dabke_handle *handle = NULL, *after = NULL;
  options.wait_follows = 1;
  for (i = 0; i < 100; ++i) {
    CHECK(dabke_allreduce_async("left", &a, NULL, &options, &handle) == DABKE_OK);
    CHECK(dabke_wait(handle, i % 2 == 0 ? -1 : 60) == DABKE_OK);
    dabke_handle_free(handle);
  }
  CHECK(dabke_allreduce_async("left", &a, NULL, &options, &handle) == DABKE_OK);
  CHECK(dabke_wait_checking(handle, -1, never, NULL) == DABKE_OK);
  dabke_handle_free(handle);
  CHECK(dabke_allreduce_async("left", &a, NULL, &options, &handle) == DABKE_OK);
  for (i = 0; i < 60000 && !dabke_poll(handle); ++i) nanosleep(&moment, NULL);
  CHECK(dabke_poll(handle) == 1);
  dabke_handle_free(handle);
  /* The second operation of a name is queued behind the first, whose handle has been freed. */
  CHECK(dabke_allreduce_async("left", &a, NULL, &options, &handle) == DABKE_OK);
  CHECK(dabke_allreduce_async("left", &a, NULL, &options, &after) == DABKE_OK);
  dabke_handle_free(handle);
  CHECK(dabke_wait(after, 60) == DABKE_OK);
  dabke_handle_free(after);
  CHECK(dabke_allreduce_async("left", &a, NULL, &options, NULL) == DABKE_OK);
  CHECK(dabke_barrier_async(&options, &handle) == DABKE_OK && dabke_wait(handle, -1) == DABKE_OK);
  dabke_handle_free(handle);
}

static int give(void* context, size_t index, DLTensor* tensor) {
  (void)index;
  tensor->data = context;
  return context == NULL;
}

static void called_back(void* context, dabke_handle* handle, dabke_status status) {
  *(atomic_int*)context = status == DABKE_OK && dabke_poll(handle) ? 1 : -1;
}

static void handles_allocators_and_callbacks(void) {
  float x[4] = {1, 2, 3, 4};
  float memory[4] = {0};
  int64_t four = 4;
  DLTensor t = floats(x, &four);
  const DLTensor* result = NULL;
  dabke_options options = DABKE_OPTIONS_INIT;
  dabke_handle* handle = NULL;
  atomic_int called = 0;
  const struct timespec moment = {0, 10000000};
  int i;
  options.output_allocator = give;
  options.output_allocator_context = memory;
  CHECK(dabke_allgather("own", &t, &options, &handle) == DABKE_OK);
  CHECK(dabke_handle_output(handle, 0, &result) == DABKE_OK && result->data == memory && memory[3] == 4);
  dabke_handle_retain(handle);
  dabke_handle_free(handle);
  CHECK(dabke_handle_status(handle) == DABKE_OK && strcmp(dabke_handle_message(handle), "") == 0);
  dabke_handle_free(handle);

  options.output_allocator = NULL;
  options.callback = called_back;
  options.callback_context = &called;
  CHECK(dabke_allreduce_async("called", &t, NULL, &options, NULL) == DABKE_OK);
  /* The callback has a thread of its own. */
  for (i = 0; i < 6000 && called == 0; ++i) nanosleep(&moment, NULL);
  CHECK(called == 1);
  CHECK(dabke_poll(NULL) == 0 && dabke_wait(NULL, 0) == DABKE_ERROR_INVALID_ARGUMENT);
  dabke_handle_free(NULL);
  dabke_handle_retain(NULL);
}

/* Each error names the function and shows the bytes that are not UTF-8. */
static void bad_names(void) {
  static char longest[4097 + 1];
  float x[3] = {1, 2, 3};
  int64_t count = 3;
  const DLTensor t = floats(x, &count);
  const DLTensor* both[] = {&t, &t};
  const char* names[] = {"good", "w\xff"};
  dabke_options options = DABKE_OPTIONS_INIT;
  DLTensor unknown = t;
  memset(longest, 'x', 4096);
  CHECK(dabke_allreduce(longest, &t, NULL, NULL) == DABKE_OK);
  longest[4096] = 'x';
  CHECK(dabke_allreduce(longest, &t, NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("has 4097 bytes; a name has at most 4096");
  CHECK(dabke_allreduce("\xc3\xa4", &t, NULL, NULL) == DABKE_OK);
  CHECK(dabke_allreduce("w\xff", &t, NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("allreduce: the name 'w\\xff' is not UTF-8");
  CHECK(dabke_broadcast("\xc0\x80", &t, NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT); /* NUL, overlong */
  CHECK_SAYS("'\\xc0\\x80'");
  CHECK(dabke_allgather("\xed\xa0\x80", &t, NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT); /* a surrogate */
  CHECK(dabke_grouped_allreduce(names, both, NULL, 2, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("'w\\xff'");
  options.group = "g\xff";
  options.group_size = 2;
  CHECK(dabke_allreduce_async("member", &t, NULL, &options, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("allreduce: the group's name 'g\\xff' is not UTF-8");
  options.group = longest;
  CHECK(dabke_allreduce_async("member", &t, NULL, &options, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("group's name");
  unknown.dtype.code = kDLComplex; /* the dtype is refused before the name is checked */
  CHECK(dabke_allreduce("w\xff", &unknown, NULL, NULL) == DABKE_ERROR_UNSUPPORTED);
  CHECK_SAYS("'w\\xff'");
  CHECK(x[0] == 1 && x[2] == 3);
}

static void bad_tensors(void) {
  char raw[32] = {0};
  float x[6] = {0};
  int64_t shape[2] = {3, 2}, strides[2] = {1, 3}, negative = -1, zero = 0;
  DLTensor t = tensor_of(x, kDLFloat, 32, 2, shape);
  dabke_options options = DABKE_OPTIONS_INIT;
  int64_t splits[2] = {1, 2};
  CHECK(dabke_allreduce("", &t, NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_allreduce(NULL, &t, NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_allreduce("t", NULL, NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  t.strides = strides;
  CHECK(dabke_allreduce("t", &t, NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("strides [1, 3]");
  strides[0] = 2;
  strides[1] = 1;
  CHECK(dabke_allreduce("t", &t, NULL, NULL) == DABKE_OK);
  t.strides = NULL;
  t.byte_offset = 1;
  CHECK(dabke_allreduce("t", &t, NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("not aligned");
  t = tensor_of(raw, kDLComplex, 64, 2, shape);
  CHECK(dabke_allreduce("t", &t, NULL, NULL) == DABKE_ERROR_UNSUPPORTED);
  CHECK_SAYS("complex64");
  t = tensor_of(x, kDLFloat, 32, 1, &negative);
  CHECK(dabke_allreduce("t", &t, NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  t = tensor_of(NULL, kDLFloat, 32, 1, &zero);
  CHECK(dabke_allreduce("empty", &t, NULL, NULL) == DABKE_OK);
  t = tensor_of(NULL, kDLFloat, 32, 2, shape);
  CHECK(dabke_allreduce("t", &t, NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  t = tensor_of(x, kDLFloat, 32, 0, NULL);
  CHECK(dabke_allreduce("scalar", &t, NULL, NULL) == DABKE_OK);
  CHECK(dabke_allgather("scalar", &t, NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("at least one dimension");
  t = tensor_of(x, kDLFloat, 32, 2, shape);
  t.device.device_type = kDLCUDA;
  CHECK(dabke_allreduce("t", &t, NULL, NULL) == DABKE_ERROR_UNSUPPORTED);
  t.device.device_type = kDLCPU;
  options.op = (dabke_reduce_op)77;
  CHECK(dabke_allreduce("t", &t, NULL, &options) == DABKE_ERROR_INVALID_ARGUMENT);
  options.op = DABKE_ADASUM;
  CHECK(dabke_allreduce("t", &t, NULL, &options) == DABKE_ERROR_NOT_IMPLEMENTED);
  options.op = (dabke_reduce_op)count_of_ops();
  CHECK(dabke_allreduce("t", &t, NULL, &options) == DABKE_ERROR_INVALID_ARGUMENT);
  options.op = DABKE_BITWISE_XOR;
  CHECK(dabke_reducescatter("t", &t, &t, &options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("'t' is float32, which has no bitwise_xor; use one of");
  options.op = DABKE_SUM;
  options.root_rank = 5;
  CHECK(dabke_broadcast("t", &t, NULL, &options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("root rank 5");
  options.root_rank = 0;
  options.process_set = 9;
  CHECK(dabke_allreduce("t", &t, NULL, &options) == DABKE_ERROR_UNKNOWN_PROCESS_SET);
  options.process_set = DABKE_WORLD;
  options.splits = splits;
  options.splits_count = 2;
  CHECK(dabke_alltoall("t", &t, &options, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  options.splits_count = 1;
  CHECK(dabke_alltoall("t", &t, &options, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("add up to 1");
}

static void process_sets(void) {
  const int32_t ranks[2] = {0, 0};
  const int32_t outside[1] = {4};
  int32_t number = -1, copied[4] = {-1, -1, -1, -1};
  int included = 0;
  size_t count = 0;
  dabke_process_set id = 99, ids[4];
  CHECK(dabke_add_process_set(ranks, 1, &id) == DABKE_ERROR_INVALID_ARGUMENT); /* the world's ranks */
  CHECK_SAYS("exists already: its id is 0");
  CHECK(dabke_add_process_set(ranks, 2, &id) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_add_process_set(outside, 1, &id) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_add_process_set(NULL, 0, &id) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_remove_process_set(DABKE_WORLD) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_remove_process_set(5) == DABKE_ERROR_UNKNOWN_PROCESS_SET);
  CHECK(dabke_process_set_rank(DABKE_WORLD, &number) == DABKE_OK && number == 0);
  CHECK(dabke_process_set_size(DABKE_WORLD, &number) == DABKE_OK && number == 1);
  CHECK(dabke_process_set_included(DABKE_WORLD, &included) == DABKE_OK && included == 1);
  CHECK(dabke_process_set_ranks(DABKE_WORLD, copied, 4, &count) == DABKE_OK && count == 1 && copied[0] == 0);
  CHECK(dabke_process_set_ids(ids, 4, &count) == DABKE_OK && count == 1 && ids[0] == 0);
  CHECK(dabke_process_set_size(7, &number) == DABKE_ERROR_UNKNOWN_PROCESS_SET);
}

static void a_job_that_is_not_elastic_has_one_epoch(void) {
  dabke_epoch_options options = DABKE_EPOCH_OPTIONS_INIT;
  dabke_epoch epoch = DABKE_EPOCH_INIT;
  dabke_epoch unsized;
  CHECK(dabke_is_elastic() == 0);
  CHECK(dabke_next_epoch(NULL, NULL) == DABKE_ERROR_UNSUPPORTED);
  CHECK_SAYS("dabkerun --min-np");
  CHECK(dabke_current_epoch(&epoch) == DABKE_ERROR_NOT_INITIALIZED);
  CHECK(dabke_announced_changes() == 0);
  CHECK(dabke_init(NULL) == DABKE_OK);
  CHECK(dabke_current_epoch(&epoch) == DABKE_OK);
  CHECK(epoch.epoch >= 1 && epoch.rank == 0 && epoch.size == 1 && epoch.former_ranks[0] == -1);
  CHECK(epoch.has_commit == 0 && epoch.holder_count == 0 && epoch.lost_count == 0 && epoch.left_why == NULL);
  options.has_commit = 1;
  CHECK(dabke_next_epoch(&options, &epoch) == DABKE_ERROR_UNSUPPORTED);
  options.struct_size = 1;
  CHECK(dabke_next_epoch(&options, &epoch) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("dabke_epoch_options.struct_size");
  unsized.struct_size = 0;
  CHECK(dabke_current_epoch(&unsized) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_current_epoch(NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_barrier(NULL) == DABKE_OK); /* the job goes on */
  CHECK(dabke_shutdown() == DABKE_OK);
}

static void what_is_to_come_says_so(void) {
  float x = 0;
  int64_t one = 1;
  DLTensor t = floats(&x, &one);
  dabke_options options = DABKE_OPTIONS_INIT;
  dabke_handle* handle = NULL;
  options.compression = (dabke_compression)4;
  CHECK(dabke_allreduce("t", &t, NULL, &options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("compression");
  options.compression = (dabke_compression)257; /* 257 is not truncated to one byte */
  CHECK(dabke_allreduce("t", &t, NULL, &options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("compression 257");
  options.compression = DABKE_COMPRESSION_FLOAT16;
  CHECK(dabke_allreduce("t", &t, NULL, &options) == DABKE_OK);
  options.compression = DABKE_COMPRESSION_DEFAULT;
  options.stream = &x;
  CHECK(dabke_allreduce("t", &t, NULL, &options) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("tensors on the host");
  CHECK(dabke_allreduce_async("t", &t, NULL, NULL, &handle) == DABKE_OK);
  CHECK(dabke_wait_stream(handle, NULL) == DABKE_OK); /* an operation on the host has completed by then */
  CHECK(dabke_poll(handle) == 1);
  CHECK(dabke_wait_stream(NULL, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  dabke_handle_free(handle);
}

static void timeline_and_statistics(void) {
  char path[] = "/tmp/dabke-c-api-XXXXXX";
  static char text[1 << 16];
  float x = 0;
  int64_t one = 1;
  DLTensor t = floats(&x, &one);
  dabke_statistics statistics;
  dabke_collective_statistics row;
  double late = -1;
  FILE* file;
  const int fd = mkstemp(path);
  CHECK(fd >= 0);
  close(fd);
  CHECK(dabke_start_timeline(NULL, 0) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_start_timeline("/no/such/folder/trace.json", 0) != DABKE_OK);
  CHECK_SAYS("/no/such/folder/trace.json");
  CHECK(dabke_start_timeline(path, 1) == DABKE_OK);
  CHECK(dabke_start_timeline(path, 1) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_annotate_begin(NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_annotate_begin("forward") == DABKE_OK);
  CHECK(dabke_allreduce("traced", &t, NULL, NULL) == DABKE_OK);
  CHECK(dabke_annotate_end() == DABKE_OK);
  CHECK(dabke_annotate_end() == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("no open span");
  CHECK(dabke_mark_step(7) == DABKE_OK);
  CHECK(dabke_stop_timeline() == DABKE_OK);
  CHECK(dabke_stop_timeline() == DABKE_OK);
  CHECK(dabke_annotate_begin("seen by nobody") == DABKE_OK);
  CHECK(dabke_annotate_end() == DABKE_OK);
  CHECK(dabke_annotate_end() == DABKE_OK);
  CHECK(dabke_mark_step(8) == DABKE_OK);
  file = fopen(path, "r");
  CHECK(file != NULL && fread(text, 1, sizeof text - 1, file) > 0 && text[0] == '{');
  CHECK(strstr(text, "\"traced\"") != NULL);
  CHECK(strstr(text, "\"forward\"") != NULL && strstr(text, "nobody") == NULL);
  CHECK(strstr(text, "\"STEP\"") != NULL);
  if (file) fclose(file);
  unlink(path);
  snprintf(text, sizeof text, "%s.rank0", path);
  CHECK(unlink(text) == 0);
  memset(&statistics, 0, sizeof statistics);
  statistics.struct_size = sizeof statistics;
  CHECK(dabke_get_statistics(&statistics) == DABKE_OK);
  CHECK(statistics.tensors_submitted >= statistics.tensors_completed && statistics.batches > 0);
  CHECK(statistics.cache_misses > 0);
  CHECK(statistics.fastest_negotiation_seconds > 0);
  CHECK(statistics.fastest_negotiation_seconds <= statistics.negotiation_seconds);
  statistics.struct_size = 0;
  CHECK(dabke_get_statistics(&statistics) == DABKE_ERROR_INVALID_ARGUMENT);

  memset(&row, 0, sizeof row);
  row.struct_size = sizeof row;
  CHECK(dabke_get_collective_statistics(0, &row) == DABKE_OK);
  CHECK(row.batches > 0 && row.tensors >= row.batches && strlen(row.collective) > 0 &&
        strlen(row.backend) > 0);
  CHECK(dabke_get_collective_statistics(1000, &row) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_get_late_seconds(0, &late) == DABKE_OK && late == 0);
  CHECK(dabke_get_late_seconds(1, &late) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK_SAYS("no rank 1");
  CHECK(dabke_get_late_seconds(0, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
}

static void a_forked_child_is_told_so(void) {
  int status = 0;
  const pid_t child = fork();
  if (child == 0) {
    const int ok = dabke_barrier(NULL) == DABKE_ERROR_FORKED && dabke_init(NULL) == DABKE_ERROR_FORKED &&
                   dabke_is_initialized() == 0 && strstr(dabke_last_error(), "forked") != NULL;
    _exit(ok ? 0 : 1);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(dabke_barrier(NULL) == DABKE_OK);
}

static void memory_belongs_to_the_parent_of_a_fork(void) {
  int status = 0;
  char* const memory = dabke_alloc(5000000);
  pid_t child;
  CHECK(memory != NULL);
  memory[4999999] = 'x';
  child = fork();
  if (child == 0) {
    char* own;
    int ok = memory[4999999] == 'x';
    dabke_free(memory);
    ok = ok && strstr(dabke_last_error(), "only the parent of a fork frees") != NULL;
    own = dabke_alloc(100);
    ok = ok && own != NULL;
    own[99] = 'y';
    dabke_free(own);
    _exit(ok ? 0 : 1);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(memory[4999999] == 'x');
  dabke_free(memory);
  dabke_free(NULL);
  CHECK(dabke_alloc((size_t)-1) == NULL);
  CHECK_SAYS("dabke_alloc: ");
}

static void handles_outlive_shutdown(void) {
  float x = 5;
  int64_t one = 1;
  DLTensor t = floats(&x, &one);
  const DLTensor* result = NULL;
  dabke_handle *done = NULL, *never = NULL;
  dabke_options options = DABKE_OPTIONS_INIT;
  CHECK(dabke_allgather("kept", &t, NULL, &done) == DABKE_OK);
  options.group = "half";
  options.group_size = 2;
  CHECK(dabke_allreduce_async("alone", &t, NULL, &options, &never) == DABKE_OK);
  CHECK(dabke_shutdown() == DABKE_OK);
  CHECK(dabke_handle_output(done, 0, &result) == DABKE_OK && ((float*)result->data)[0] == 5);
  CHECK(dabke_wait(never, 5) == DABKE_ERROR_SHUT_DOWN);
  CHECK(strlen(dabke_handle_message(never)) > 0);
  CHECK(dabke_init(NULL) == DABKE_OK);
  dabke_handle_free(done);
  dabke_handle_free(never);
  CHECK(dabke_abort("enough") == DABKE_OK);
  CHECK(dabke_allreduce("after", &t, NULL, NULL) == DABKE_ERROR_ABORTED);
  CHECK_SAYS("enough");
  CHECK(dabke_shutdown() == DABKE_OK);
}

/* Runs in a job of its own. The tensors outlive that job, and another one. */
static void outputs_outlive_their_handle_as_dlpack(void) {
  float x[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {3, 2};
  DLTensor t = tensor_of(x, kDLFloat, 32, 2, shape);
  dabke_options options = DABKE_OPTIONS_INIT;
  dabke_handle *done = NULL, *in_place = NULL, *pending = NULL;
  DLManagedTensor *first = NULL, *second = NULL, *same = NULL;
  DLManagedTensorVersioned* versioned = NULL;
  CHECK(dabke_init(NULL) == DABKE_OK);
  CHECK(dabke_allgather("kept", &t, NULL, &done) == DABKE_OK);
  CHECK(dabke_allreduce_async("in place", &t, NULL, NULL, &in_place) == DABKE_OK);
  CHECK(dabke_wait(in_place, 10) == DABKE_OK);
  CHECK(dabke_handle_output_dlpack(done, 0, &first) == DABKE_OK);
  CHECK(dabke_handle_output_dlpack(done, 0, &second) == DABKE_OK && first != second);
  second->deleter(second);
  CHECK(dabke_handle_output_dlpack(in_place, 0, &same) == DABKE_OK && same->dl_tensor.data == x);
  /* No place for the result, and an output that does not exist. */
  CHECK(dabke_handle_output_dlpack(done, 0, NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_handle_output_dlpack_versioned(done, 1, &versioned) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(versioned == NULL);
  CHECK_SAYS("output 1 does not exist: there are 1");
  CHECK(dabke_handle_output_dlpack_versioned(done, 0, &versioned) == DABKE_OK);
  options.group = "half";
  options.group_size = 2;
  CHECK(dabke_allreduce_async("alone", &t, NULL, &options, &pending) == DABKE_OK);
  CHECK(dabke_handle_output_dlpack(pending, 0, &second) == DABKE_IN_PROGRESS && second == NULL);
  CHECK(dabke_handle_output_dlpack(NULL, 0, &second) == DABKE_ERROR_INVALID_ARGUMENT);
  dabke_handle_free(done);
  dabke_handle_free(in_place);
  CHECK(dabke_shutdown() == DABKE_OK);
  CHECK(dabke_wait(pending, 60) == DABKE_ERROR_SHUT_DOWN);
  CHECK(dabke_handle_output_dlpack(pending, 0, &second) == DABKE_ERROR_SHUT_DOWN && second == NULL);
  dabke_handle_free(pending);
  CHECK(dabke_init(NULL) == DABKE_OK);
  CHECK(first->dl_tensor.ndim == 2 && first->dl_tensor.shape[0] == 3 && first->dl_tensor.strides[0] == 2 &&
        first->dl_tensor.strides[1] == 1 && first->dl_tensor.dtype.code == kDLFloat &&
        first->dl_tensor.device.device_type == kDLCPU && ((float*)first->dl_tensor.data)[5] == 6);
  CHECK(versioned->version.major == 1 && versioned->flags == 0 &&
        versioned->dl_tensor.data == first->dl_tensor.data);
  first->deleter(first);
  CHECK(((float*)versioned->dl_tensor.data)[4] == 5);
  versioned->deleter(versioned);
  same->deleter(same);
  CHECK(dabke_shutdown() == DABKE_OK);
}

static size_t tell_stack(void* context, char* text, size_t capacity) {
  const char* const said = context;
  const size_t length = strlen(said) < capacity ? strlen(said) : capacity;
  memcpy(text, said, length);
  return length;
}

static void dumps_and_stacks(void) {
  char path[] = "/tmp/dabke_dump_XXXXXX";
  char text[65536];
  size_t length;
  FILE* file;
  float x = 1;
  int64_t one = 1;
  DLTensor t = floats(&x, &one);
  close(mkstemp(path));
  CHECK(dabke_dump(path) == DABKE_ERROR_NOT_INITIALIZED);
  CHECK(dabke_set_stack_provider(tell_stack, "train.py line 12") == DABKE_OK);
  CHECK(dabke_init(NULL) == DABKE_OK);
  CHECK(dabke_dump(NULL) == DABKE_ERROR_INVALID_ARGUMENT);
  CHECK(dabke_dump("/nowhere/at/all") == DABKE_ERROR_TRANSPORT);
  CHECK_SAYS("cannot open dump '/nowhere/at/all': No such file or directory");
  CHECK(dabke_allreduce("layer1.grad", &t, NULL, NULL) == DABKE_OK);
  CHECK(dabke_dump(path) == DABKE_OK);
  file = fopen(path, "r");
  CHECK(file != NULL);
  length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = 0;
  CHECK(strstr(text, "\"format\": \"dabke-dump\"") != NULL);
  CHECK(strstr(text, "train.py line 12") != NULL);
  CHECK(strstr(text, "layer1.grad") != NULL);
  CHECK(strstr(text, "finished") != NULL);
  CHECK(strstr(text, "c_api_test") != NULL); /* the stack of this thread */
  CHECK(dabke_set_stack_provider(NULL, NULL) == DABKE_OK);
  CHECK(dabke_shutdown() == DABKE_OK);
  unlink(path);
}

int main(void) {
  before_init();
  version_and_tables();
  process_sets_of_init();
  start_from_a_program();
  a_pending_name_is_refused_by_the_call();
  init_and_settings();
  structs_grow();
  every_collective();
  every_operation();
  outputs_that_are_given();
  members_of_a_group_wait_for_each_other();
  a_check_stops_a_wait();
  what_is_left_to_a_wait_completes();
  handles_allocators_and_callbacks();
  bad_names();
  bad_tensors();
  process_sets();
  what_is_to_come_says_so();
  timeline_and_statistics();
  a_forked_child_is_told_so();
  memory_belongs_to_the_parent_of_a_fork();
  handles_outlive_shutdown();
  outputs_outlive_their_handle_as_dlpack();
  a_job_that_is_not_elastic_has_one_epoch();
  dumps_and_stacks();
  printf("%d checks, %d failed\n", checks, failures);
  return failures != 0;
}
