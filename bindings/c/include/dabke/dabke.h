/* Dabke: collective communication for distributed training. The C API (C11).
 *
 * Every rank of a job calls dabke_init, hands named tensors to collectives, and calls dabke_shutdown. A name
 * stands for the same tensor on every rank; ranks may submit in any order. The data moves when all ranks of
 * the process set have submitted the name.
 *
 * Threads     every function may be called from any thread.
 * Ownership   what a function takes by pointer it copies before it returns (names, shapes, options, splits),
 *             except the tensors' data: that must live, and must not be touched, until the operation has
 *             completed. Strings and arrays that a function hands out belong to the library; each function
 *             says how long they live.
 * Errors      a function that can fail returns a dabke_status. dabke_last_error() is the text of the calling
 *             thread's last failed call; an operation that fails later carries its text in its handle.
 * Units       times in seconds, sizes in bytes, counts in elements, unless the name says otherwise.
 * Growth      every struct begins with size_t struct_size = sizeof(the struct). A longer struct than the
 *             library knows is taken when its unknown tail is zero, and refused otherwise; a shorter one gets
 *             defaults for the rest.
 */
#ifndef DABKE_DABKE_H
#define DABKE_DABKE_H

#include <stddef.h>
#include <stdint.h>

#include "dabke/dlpack.h"

#if defined(__GNUC__)
#define DABKE_API __attribute__((visibility("default")))
#else
#define DABKE_API
#endif

#define DABKE_VERSION_MAJOR 0
#define DABKE_VERSION_MINOR 1
#define DABKE_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ---- */

typedef enum dabke_status {
  DABKE_OK = 0,
  DABKE_IN_PROGRESS = 1, /* dabke_wait's time was up, or the operation is still pending; not an error */
  DABKE_ERROR_INVALID_ARGUMENT = 2,
  DABKE_ERROR_NOT_INITIALIZED = 3,
  DABKE_ERROR_ALREADY_INITIALIZED = 4,
  DABKE_ERROR_MISMATCH = 5, /* ranks disagree about shape, dtype, operation, root, scale or process set */
  DABKE_ERROR_DUPLICATE_NAME = 6,
  DABKE_ERROR_UNKNOWN_PROCESS_SET = 7,
  DABKE_ERROR_PEER_LOST = 8,
  DABKE_ERROR_SHUT_DOWN = 9,
  DABKE_ERROR_STALLED = 10,
  DABKE_ERROR_ABORTED = 11,
  DABKE_ERROR_TIMEOUT = 12,
  DABKE_ERROR_NOT_IMPLEMENTED = 13,
  DABKE_ERROR_NOT_BUILT = 14,
  DABKE_ERROR_UNSUPPORTED = 15,
  DABKE_ERROR_OUT_OF_MEMORY = 16,
  DABKE_ERROR_TRANSPORT = 17,
  DABKE_ERROR_FORKED = 18, /* called in a forked child of a rank */
  DABKE_ERROR_INTERNAL = 19,
  DABKE_ERROR_INTERRUPTED = 20 /* a wait's check stopped it; the operation is still pending */
} dabke_status;

/* The name of a status, such as "peer_lost", and what it means. Static; "unknown" for other numbers. */
DABKE_API const char* dabke_status_name(dabke_status status);
DABKE_API const char* dabke_status_text(dabke_status status);

/* The text of the calling thread's last failed call, or "". Valid until its next failed call. */
DABKE_API const char* dabke_last_error(void);

/* Whether a wait is to stop: 0 to go on, anything else to stop. */
typedef int (*dabke_check)(void* context);

/* ---- start and end ---- */

typedef int32_t dabke_process_set; /* 0 is the world: all ranks */
#define DABKE_WORLD 0

typedef struct dabke_init_options {
  size_t struct_size;
  /* "NAME=value" pairs of the knob table, such as "TIMELINE=trace.json"; they come before the environment.
   * NULL-ended; may be NULL. */
  const char* const* settings;
  /* Process sets to make at once: process_set_ranks[i] points to process_set_sizes[i] world ranks. They get
   * the ids 1, 2, ... in this order, after those of PROCESS_SETS. DABKE_ERROR_MISMATCH on all ranks, with
   * both lists, when they are not equal everywhere; DABKE_ERROR_INVALID_ARGUMENT when one is there twice or
   * is the world. */
  const int32_t* const* process_set_ranks;
  const size_t* process_set_sizes;
  size_t process_set_count;
  /* The address of an MPI_Comm of the application. Its processes are the job, in its order, whatever the
   * environment says; all of them call dabke_init, and no other process need. It is duplicated, never freed.
   * DABKE_ERROR_INVALID_ARGUMENT when it is MPI_COMM_NULL, an intercommunicator, or MPI is not initialised.
   * NULL: find the job in the environment. */
  const void* mpi_comm;

  /* A job that the program starts by itself, over whatever its processes can talk through: a store, PMI, Ray,
   * MPI of another language. It gives `exchange`, an allgather, and with it `rank`, this process's number among
   * those that exchange reaches, and `size`, how many they are. The environment's rank, size, rendezvous and
   * key are not looked at then; its knobs and DABKE_HOSTNAME are.
   *
   * Every one of these processes calls dabke_init, and each calls its exchange exactly twice, also where init
   * fails on it. So none waits in it for another, and what is wrong on one (a knob, a process set) is every
   * one's error, which names it. Not called where init fails at once: when rank, size or exchange itself make
   * no sense, after an earlier dabke_init, in a forked child.
   *
   * DABKE_ERROR_INVALID_ARGUMENT when rank, size or ranks are given without exchange, or mpi_comm beside it. */
  int64_t rank;
  int64_t size;
  /* The job is some of these processes only: their numbers, `ranks_count` of them. Process ranks[i] becomes
   * rank i, so this is also how ranks get other numbers. Each process passes the ranks of its own job, and all
   * of a job the same ones; several jobs may start in one exchange. NULL: all processes, by their numbers. A
   * process that is not among its `ranks` calls dabke_init, too, because exchange needs all; having taken part
   * in it, it gets DABKE_ERROR_INVALID_ARGUMENT that says so, and is in no job. */
  const int32_t* ranks;
  size_t ranks_count;
  /* Gives `capacity` bytes at `mine` to all processes, and fills `all` with those of all, in the order of
   * their numbers: size * capacity bytes. `capacity` is the same on every process and at most 4096. 0 is
   * success; anything else is the error of init, with DABKE_ERROR_TRANSPORT. Its patience is its own:
   * START_TIMEOUT_SECONDS counts from when it has returned.
   *
   * The first call passes hosts and process sets; the second passes what rank 0 has found out and made: where
   * its store listens, the job's id, its key, and the epoch. Rank 0 makes the key from the system's random
   * source. Whoever can read what exchange carries can join the job, so it must go over what you trust. Rank 0
   * serves the store, and the key is good for its later jobs, as long as its process lives.
   *
   * Called on the thread that calls dabke_init, and on no other. It must not call dabke_init or
   * dabke_shutdown. */
  int (*exchange)(void* context, const void* mine, void* all, size_t capacity);
  void* exchange_context;

  /* Asked a few times a second, on the calling thread, whether to go on, for as long as dabke_init waits for other ranks (not
   * while it waits in exchange, in MPI or in Slurm's PMI-2). Once it has said stop, dabke_init returns
   * DABKE_ERROR_INTERRUPTED, and the ranks that wait for this one get DABKE_ERROR_ABORTED, which names it. It is asked
   * no more then. What it may call: as in dabke_wait_checking. May be NULL. */
  dabke_check check;
  void* check_context;
  /* The language of the program, "python", whose names of calls messages use where they say what to do. NULL: C. */
  const char* language;
} dabke_init_options;
#define DABKE_INIT_OPTIONS_INIT \
  { sizeof(dabke_init_options), NULL, NULL, NULL, 0, NULL, 0, 0, NULL, 0, NULL, NULL, NULL, NULL, NULL }

/* Joins the job that the environment describes (dabkerun sets it), or the options; without either, a job of a
 * single rank. Every init is an epoch of its own: ranks may have other numbers in the next one, and it may have
 * fewer ranks, or new ones, which wait until rank 0 opens an epoch that has room for them.
 * Backend: returns when all ranks have come, or after START_TIMEOUT_SECONDS with an error that names the
 * missing ones. `options` may be NULL. May be called again after dabke_shutdown. */
DABKE_API dabke_status dabke_init(const dabke_init_options* options);

/* Leaves the job: operations that all ranks have agreed on run to their end, others fail with
 * DABKE_ERROR_SHUT_DOWN. Ranks that still wait for this one get that error, naming it. Process sets without
 * it go on, but for those of ranks that negotiate through it: when rank 0 leaves, the job is over for all
 * ranks, and when the lowest rank of a host leaves, for the ranks of that host at least. So call
 * dabke_barrier first where others may have work to do. Handles stay valid. Without init it does nothing.
 * Every callback has returned when it returns. DABKE_ERROR_INVALID_ARGUMENT in a callback, an output
 * allocator or a stack provider, for whose return it would wait; so is dabke_init there. */
DABKE_API dabke_status dabke_shutdown(void);

DABKE_API int dabke_is_initialized(void);

/* Fails every pending and later operation on every rank with DABKE_ERROR_ABORTED and `reason` (copied). The
 * job is over after that; dabke_shutdown is still to be called. */
DABKE_API dabke_status dabke_abort(const char* reason);

/* This process's place; -1 before init. local: among the ranks of this host. cross: among those of equal
 * local rank. */
DABKE_API int dabke_rank(void);
DABKE_API int dabke_size(void);
DABKE_API int dabke_local_rank(void);
DABKE_API int dabke_local_size(void);
DABKE_API int dabke_cross_rank(void);
DABKE_API int dabke_cross_size(void);
/* 1 when every host has the same number of ranks, 0 when not, -1 before init. */
DABKE_API int dabke_is_homogeneous(void);

/* "0.1.0", static; and MAJOR * 10000 + MINOR * 100 + PATCH. */
DABKE_API const char* dabke_version(void);
DABKE_API int dabke_version_number(void);

/* 1 when this build has the backend ("gloo", "mpi", "shm", "tcp", "nccl", "cuda") or controller ("tcp",
 * "mpi", "shm"), 0 when not. The enabled forms say whether the running job uses it; 0 before init. */
DABKE_API int dabke_backend_built(const char* name);
DABKE_API int dabke_backend_enabled(const char* name);
DABKE_API int dabke_controller_built(const char* name);
DABKE_API int dabke_controller_enabled(const char* name);
/* 1 when MPI is in use and may be called from several threads, 0 when it may not, -1 without MPI. */
DABKE_API int dabke_mpi_threads_supported(void);

/* ---- options of a collective ---- */

/* The numbers are Horovod's, as far as it has them. */
typedef enum dabke_reduce_op {
  DABKE_AVERAGE = 0, /* the sum over the ranks that took part, divided by their number */
  DABKE_SUM = 1,
  DABKE_ADASUM = 2,
  DABKE_MIN = 3,
  DABKE_MAX = 4,
  DABKE_PRODUCT = 5,
  DABKE_BITWISE_AND = 6, /* these three of integers and bool; floating-point tensors are refused */
  DABKE_BITWISE_OR = 7,
  DABKE_BITWISE_XOR = 8
} dabke_reduce_op;

/* What the float32 elements of an allreduce travel as between hosts; the other collectives and dtypes, and
 * all that stays in a host, are left as they are. Must be the same on all ranks. */
typedef enum dabke_compression {
  DABKE_COMPRESSION_NONE = 0,
  DABKE_COMPRESSION_FLOAT16 = 1,
  DABKE_COMPRESSION_BFLOAT16 = 2,
  DABKE_COMPRESSION_DEFAULT = 3 /* what DABKE_COMPRESSION in the environment says: none, unless it is set */
} dabke_compression;

typedef enum dabke_collective {
  DABKE_ALLREDUCE = 0,
  DABKE_ALLGATHER = 1,
  DABKE_BROADCAST = 2,
  DABKE_ALLTOALL = 3,
  DABKE_REDUCESCATTER = 4,
  DABKE_BARRIER = 5
} dabke_collective;

/* What the numbers of these enums are called: "bitwise_xor", "bfloat16", "reducescatter". They count from 0
 * without a gap. Static; "unknown" for other numbers. */
DABKE_API const char* dabke_reduce_op_name(dabke_reduce_op op);
DABKE_API const char* dabke_compression_name(dabke_compression compression);
DABKE_API const char* dabke_collective_name(dabke_collective collective);

#define DABKE_MOST_DIMENSIONS 64 /* of a tensor */
/* The name of the dtype in row `index` of all that tensors may have, such as "float32", and in `dtype`, which
 * may be NULL, what DLPack calls it. Static; NULL beyond the last row. */
DABKE_API const char* dabke_dtype_name(size_t index, DLDataType* dtype);

typedef struct dabke_handle dabke_handle;

/* Called exactly once for each operation that was submitted with DABKE_OK, when it has completed, on a thread
 * of the runtime that holds no lock. It may submit, it may not wait. `handle` is valid during the call,
 * whether or not the caller has freed it. */
typedef void (*dabke_callback)(void* context, dabke_handle* handle, dabke_status status);

/* Gives memory for an output whose size was not known before: `tensor` has dtype, device and shape
 * (row-major); the function sets data (64-byte aligned, if it can be) and returns 0, or anything else when it
 * has none. The memory is the caller's. `index` counts the tensors of a group. Called on a thread of the
 * runtime, or on one that waits for a result; for a reducescatter, whose sizes are known, on the calling
 * thread. One rank that has none ends this operation alone: before any data moves all ranks agree that it
 * fails, with DABKE_ERROR_OUT_OF_MEMORY and a text that names the rank and the tensor. Other tensors that
 * would have travelled with it run as if it had not been there; a group fails as a whole. What other ranks
 * have given for it stays unused. The same holds where the runtime itself has no memory for a large output.
 * Calls that wait are refused in it with DABKE_ERROR_INVALID_ARGUMENT. */
typedef int (*dabke_output_allocator)(void* context, size_t index, DLTensor* tensor);

typedef struct dabke_options {
  size_t struct_size;
  dabke_process_set process_set;
  dabke_reduce_op op;     /* allreduce, reducescatter */
  int32_t root_rank;      /* broadcast: the world rank whose data everybody gets, also inside a process set */
  double prescale_factor; /* every input element is multiplied by this before it is reduced */
  double postscale_factor; /* and every result by this; infinite or NaN for floating-point tensors only */
  const int64_t* splits;   /* alltoall: rows for each rank of the set; NULL: equal parts */
  size_t splits_count;
  const char* group;   /* tensors with the same group name are ordered together; see group_size */
  uint32_t group_size; /* how many tensors the group has on every rank. It fails as a whole: with a mismatch
                        * where ranks give it another size or other members (members still to come then fail
                        * too), and where its rank joins or shuts down before it is whole */
  int32_t priority;    /* higher first among what is ready at the same time */
  dabke_compression compression;
  /* Tensors on CUDA devices: a cudaStream_t of their device, whose work until this call comes before the operation: what
   * produces the input, and what still uses the output's memory. The call records an event there, on the calling thread,
   * and does not wait for it; nor does anybody of the host's. NULL: ready now. The legacy default stream is cudaStreamLegacy,
   * 1; cudaStreamPerThread, 2, is that of the calling thread.
   *
   * A stream that is being captured into a graph is refused (DABKE_ERROR_INVALID_ARGUMENT), and the capture goes on. So is
   * one of another device, and any stream for tensors of the host. */
  void* stream;
  /* A cudaEvent_t that has been recorded, after which the input is ready, in place of a stream or beside it. It stays the
   * caller's, who neither records it again nor destroys it before the operation has completed. What was recorded in a
   * capture is refused; the driver may end that capture, if it is still going on. */
  void* ready_event;
  dabke_output_allocator output_allocator;
  void* output_allocator_context;
  dabke_callback callback;
  void* callback_context;
  /* join: the CUDA device with whose memory this rank takes part in what the others do with theirs; -1, and a
   * device that this build or this process does not have: those that it has used. */
  int64_t device;
  /* Of the asynchronous forms: 1 says that the calling thread waits for the handle next. Its wait then negotiates by
   * itself, as in the blocking forms, and no other thread is woken for that, which takes tens of microseconds. Until
   * the handle is waited for, polled or freed, other ranks may wait for this one. 0: the runtime goes on at once. */
  int64_t wait_follows;
} dabke_options;
/* The defaults: world, average, root 0, no scaling. A NULL options pointer means these. A struct of zeros
 * does not: its scale factors are 0. */
#define DABKE_OPTIONS_INIT                                                               \
  {                                                                                      \
    sizeof(dabke_options), DABKE_WORLD, DABKE_AVERAGE, 0, 1.0, 1.0, NULL, 0, NULL, 0, 0, \
        DABKE_COMPRESSION_DEFAULT, NULL, NULL, NULL, NULL, NULL, NULL, -1, 0             \
  }

/* ---- collectives ---- */

/* For a binding that refuses a call by itself, before it comes here: the other ranks of options->process_set, which may
 * have accepted the same call, get an error with this rank's number and `reason` instead of waiting for it. `name` is the
 * tensor's, or the first one's of a grouped call; of a barrier it does not matter. It reads the process set and the
 * group of the options, and nothing else of them. This rank's own error is the caller's to raise. */
DABKE_API dabke_status dabke_refuse(dabke_collective collective, const char* name,
                                    const dabke_options* options, const char* reason);

/* Tensors: dtypes bool, (u)int8/16/32/64, float16, bfloat16, float32, float64; compact row-major memory
 * aligned to the element. Anything else is refused, naming the tensor. A tensor without elements may have
 * data == NULL.
 *
 * Asynchronous forms return at once, never block, and give a handle that the caller frees. They fail at once,
 * with no handle, on what can be told alone (bad argument, unknown process set, before init); what only the
 * ranks together can tell (a mismatch) is the operation's status, on every rank. A call that one rank refuses
 * fails on the others, too: their operation of that name, or the next, ends with that rank's text instead of
 * waiting for it. `handle` may be NULL when the result is not wanted otherwise. A name still pending on this
 * rank is queued behind the first; with DUPLICATE_NAMES=error the call fails with DABKE_ERROR_DUPLICATE_NAME,
 * a grouped one as a whole when that holds for one of its names, and no other rank hears of it. A name is free
 * again before its handle completes and its callback is called.
 *
 * A name is UTF-8 of 1 to 4096 bytes, and so is that of a group; any other is refused.
 *
 * Memory. An operation reads its inputs and writes its outputs until it has completed. It works in place where
 *   - `output` is NULL (allreduce, broadcast), or begins where its input begins (every collective), or
 *   - the input and the output share this rank's part, as with NCCL: the output of a reducescatter is that part
 *     of its input, the input of an allgather_into is that part of its output.
 * Otherwise an output shares no memory with its input, nor ever with another tensor of the same call or group.
 * Anything else is refused with DABKE_ERROR_INVALID_ARGUMENT. Two operations that are pending at the same time may
 * read the same memory; what one of them writes, the other must not use, which nothing checks. */

/* output = reduction of all ranks' inputs, elementwise; same shape and dtype on every rank. A bool has one
 * bit, and any byte but 0 is true: on it sum, max and bitwise or are OR, product, min and bitwise and are
 * AND. The bitwise operations are refused for floating-point tensors. Sums and products of integers wrap.
 * Their average is the exact quotient, truncated toward zero, also where the sum would not fit into the
 * dtype; only of 64 bits the sum must fit. Integers multiplied by a factor are truncated toward zero as well
 * and stay within the dtype's range: int8 100 times 2 is 127. The factor is taken exactly (1 changes nothing,
 * 0.5 halves), except that one with more digits than it can hold, like 1.0 / 3, makes a whole number where
 * the number meant does: 49 times 1.0 / 49 is 1. A postscale factor multiplies an average before it is
 * truncated. For floating-point tensors a factor is rounded to their dtype (for float16 and bfloat16 to float32);
 * the prescale factor multiplies each input element once and the postscale factor each result once, an average
 * too, and each product is rounded. All ranks get the same bits, whatever rounding or flushing of subnormal numbers
 * the calling thread has set. */
DABKE_API dabke_status dabke_allreduce_async(const char* name, const DLTensor* input, const DLTensor* output,
                                             const dabke_options* options, dabke_handle** handle);
DABKE_API dabke_status dabke_allreduce(const char* name, const DLTensor* input, const DLTensor* output,
                                       const dabke_options* options);

/* `count` tensors ordered together, all or none; one handle for all. `outputs` may be NULL (in place). */
DABKE_API dabke_status dabke_grouped_allreduce_async(const char* const* names, const DLTensor* const* inputs,
                                                     const DLTensor* const* outputs, size_t count,
                                                     const dabke_options* options, dabke_handle** handle);
DABKE_API dabke_status dabke_grouped_allreduce(const char* const* names, const DLTensor* const* inputs,
                                               const DLTensor* const* outputs, size_t count,
                                               const dabke_options* options);

/* The ranks' inputs one behind the other, by first dimension, which alone may differ by rank (0 too). At
 * least one dimension. The output comes from options->output_allocator or is owned by the handle:
 * dabke_handle_output. */
DABKE_API dabke_status dabke_allgather_async(const char* name, const DLTensor* input,
                                             const dabke_options* options, dabke_handle** handle);
/* Blocking: *handle is complete, and is to be freed. */
DABKE_API dabke_status dabke_allgather(const char* name, const DLTensor* input, const dabke_options* options,
                                       dabke_handle** handle);
/* The same into memory of the caller's; no allocator is asked. `output` has the input's dtype, device and
 * dimensions, but for the first, which is the sum of all ranks'. Where it has another first dimension on some
 * rank, or the input lies in it elsewhere than where it may, the operation fails on all ranks before any data moves, with
 * DABKE_ERROR_INVALID_ARGUMENT and a text that names the rank and both shapes; other tensors run as if it had
 * not been there. Ranks that give an output and ranks that do not may meet. */
DABKE_API dabke_status dabke_allgather_into_async(const char* name, const DLTensor* input,
                                                  const DLTensor* output, const dabke_options* options,
                                                  dabke_handle** handle);
DABKE_API dabke_status dabke_allgather_into(const char* name, const DLTensor* input, const DLTensor* output,
                                            const dabke_options* options);
DABKE_API dabke_status dabke_grouped_allgather_async(const char* const* names, const DLTensor* const* inputs,
                                                     size_t count, const dabke_options* options,
                                                     dabke_handle** handle);
DABKE_API dabke_status dabke_grouped_allgather(const char* const* names, const DLTensor* const* inputs,
                                               size_t count, const dabke_options* options,
                                               dabke_handle** handle);

/* Every rank's output becomes the input of options->root_rank. Same shape and dtype everywhere. */
DABKE_API dabke_status dabke_broadcast_async(const char* name, const DLTensor* input, const DLTensor* output,
                                             const dabke_options* options, dabke_handle** handle);
DABKE_API dabke_status dabke_broadcast(const char* name, const DLTensor* input, const DLTensor* output,
                                       const dabke_options* options);

/* Row block i of the input goes to rank i of the set; the output is what came, by source rank.
 * options->splits gives the rows of each block (its sum is the first dimension); without them the first
 * dimension is divided evenly and must be a multiple of the set's size. Output as with allgather; the rows
 * from each rank: dabke_handle_received_splits. */
DABKE_API dabke_status dabke_alltoall_async(const char* name, const DLTensor* input,
                                            const dabke_options* options, dabke_handle** handle);
DABKE_API dabke_status dabke_alltoall(const char* name, const DLTensor* input, const dabke_options* options,
                                      dabke_handle** handle);
/* The same into memory of the caller's, as with dabke_allgather_into; its first dimension is the sum of the
 * rows that come. What came from each rank is told by the handle, so by the asynchronous form. */
DABKE_API dabke_status dabke_alltoall_into_async(const char* name, const DLTensor* input,
                                                 const DLTensor* output, const dabke_options* options,
                                                 dabke_handle** handle);
DABKE_API dabke_status dabke_alltoall_into(const char* name, const DLTensor* input, const DLTensor* output,
                                           const dabke_options* options);

/* Reduces like allreduce, with any of its operations, then rank i of the set keeps the i-th block of rows.
 * With n ranks and d rows the first d % n ranks get d / n + 1 rows, the others d / n. `output` NULL: as with
 * allgather. */
DABKE_API dabke_status dabke_reducescatter_async(const char* name, const DLTensor* input,
                                                 const DLTensor* output, const dabke_options* options,
                                                 dabke_handle** handle);
DABKE_API dabke_status dabke_reducescatter(const char* name, const DLTensor* input, const DLTensor* output,
                                           const dabke_options* options);
DABKE_API dabke_status dabke_grouped_reducescatter_async(const char* const* names,
                                                         const DLTensor* const* inputs,
                                                         const DLTensor* const* outputs, size_t count,
                                                         const dabke_options* options, dabke_handle** handle);
DABKE_API dabke_status dabke_grouped_reducescatter(const char* const* names, const DLTensor* const* inputs,
                                                   const DLTensor* const* outputs, size_t count,
                                                   const dabke_options* options);

/* Returns when every rank of the set has come. The n-th barrier of a rank in a set is the n-th of all;
 * several may be in flight, whatever DUPLICATE_NAMES says, and no tensor's or group's name collides with
 * them. */
DABKE_API dabke_status dabke_barrier_async(const dabke_options* options, dabke_handle** handle);
DABKE_API dabke_status dabke_barrier(const dabke_options* options);

/* This rank has no more data: until every rank of the set has joined it takes part in the others' collectives
 * with the neutral element (of the sum, minimum, ...; no rows in an allgather or alltoall) and does not count
 * in an average. A broadcast from a joined rank is an error. With JOIN=horovod an average is divided by the
 * size of the set all the same, and allgather, broadcast, alltoall and reducescatter beside a joined rank fail
 * on all ranks with DABKE_ERROR_INVALID_ARGUMENT. Completes when all ranks have joined; *last_rank, if not NULL,
 * becomes the world rank that joined last. */
DABKE_API dabke_status dabke_join_async(const dabke_options* options, dabke_handle** handle);
DABKE_API dabke_status dabke_join(const dabke_options* options, int32_t* last_rank);

/* ---- handles ---- */

/* A handle outlives shutdown and re-init, until its last reference is freed. Freeing it never cancels. */
DABKE_API void dabke_handle_retain(dabke_handle* handle);
DABKE_API void dabke_handle_free(dabke_handle* handle); /* NULL is allowed */

/* 1 when the operation has completed, with whatever result; 0 when not. Never blocks. */
DABKE_API int dabke_poll(const dabke_handle* handle);
/* Waits at most `timeout_seconds` (negative: without limit), sleeping. Several threads may wait. Returns the
 * operation's status, or DABKE_IN_PROGRESS when the time was up. */
DABKE_API dabke_status dabke_wait(dabke_handle* handle, double timeout_seconds);
/* The same, and asks `check` about every 50 ms whether to go on, for as long as it waits: on the calling
 * thread, which holds nothing then that others need, so it may block (on an interpreter's lock, say). It may
 * submit; calls that wait, dabke_init and dabke_shutdown are refused in it with
 * DABKE_ERROR_INVALID_ARGUMENT.
 *
 * A wait that it stops returns DABKE_ERROR_INTERRUPTED, and the operation goes on: it can be waited for again.
 * But a wait without limit may itself run the operation, where ranks share memory. The others count on it
 * then, so a stop ends the job: all operations of all ranks fail with DABKE_ERROR_ABORTED, and the text names
 * this rank and what it waited for. A wait with a limit never runs one. `check` may be NULL. */
DABKE_API dabke_status dabke_wait_checking(dabke_handle* handle, double timeout_seconds, dabke_check check,
                                           void* context);
/* The operation's status, DABKE_IN_PROGRESS while pending; once set it never changes. */
DABKE_API dabke_status dabke_handle_status(const dabke_handle* handle);
/* The operation's error text, "" when there is none. Lives as long as the handle. */
DABKE_API const char* dabke_handle_message(const dabke_handle* handle);
/* Output number `index` of a completed operation, or of one on a CUDA device for which dabke_wait_stream has returned
 * DABKE_OK: its memory is there then, and its data on the streams that wait. The tensor, and memory that the handle
 * owns, live as long as it. */
DABKE_API size_t dabke_handle_output_count(const dabke_handle* handle);
DABKE_API dabke_status dabke_handle_output(const dabke_handle* handle, size_t index, const DLTensor** output);
/* The same as a DLPack tensor that owns itself, for a consumer of the exchange protocol: of DLPack before 1.0
 * (a capsule "dltensor"), and of 1.0 and later ("dltensor_versioned"; it may be written, and is no copy).
 *
 * It refers to the output's own memory and keeps the handle alive until its deleter is called: once, on any
 * thread, also after dabke_handle_free, dabke_shutdown and another dabke_init. A handle gives as many as are
 * asked for; they share the memory. Memory that is the caller's (in place, a given output, the output
 * allocator's) is handed over as well, but only the caller keeps that alive: it must outlive the tensor.
 *
 * DABKE_IN_PROGRESS while the operation is pending, its own error when it has failed,
 * DABKE_ERROR_INVALID_ARGUMENT without such an output; *output is then NULL. */
DABKE_API dabke_status dabke_handle_output_dlpack(dabke_handle* handle, size_t index,
                                                  DLManagedTensor** output);
DABKE_API dabke_status dabke_handle_output_dlpack_versioned(dabke_handle* handle, size_t index,
                                                            struct DLManagedTensorVersioned** output);
/* alltoall: the rows that came from each rank of the set, when its output can be had. Lives as long as the handle. */
DABKE_API dabke_status dabke_handle_received_splits(const dabke_handle* handle, const int64_t** splits,
                                                    size_t* count);
/* join: the world rank that joined last. */
DABKE_API dabke_status dabke_handle_last_joined_rank(const dabke_handle* handle, int32_t* rank);
/* Makes `stream`, a cudaStream_t of the tensors' device, wait for the operation: what is launched there after this call
 * finds the results. NULL is the legacy default stream; 1 and 2 are as in dabke_options.stream.
 *
 * The host waits until the operation has been handed to the device: so for all ranks to submit it, and not for its
 * inputs, nor for its data. What runs on the host all the same (docs/gpu.md) has done most of its work by then. An
 * operation that has completed, one of host tensors or without tensors is waited for as by dabke_wait, and then the
 * stream has nothing to wait for. Any thread; several streams may wait for one operation; the handle may be freed then.
 *
 * The operation's own error, when it has failed by then; DABKE_ERROR_INVALID_ARGUMENT, and the stream is as it was, when
 * it is being captured into a graph, or is of another device; what dabke_wait is refused for. After DABKE_OK the operation
 * is still pending, and it may still fail: a rank may be lost. The stream goes on then, with outputs that are
 * unspecified, and dabke_wait, the handle's status and the callback alone say so; a later operation fails as well. */
DABKE_API dabke_status dabke_wait_stream(dabke_handle* handle, void* stream);
/* The same, with the time limit and the check of dabke_wait_checking for as long as the host waits. DABKE_IN_PROGRESS when
 * the time was up, and DABKE_ERROR_INTERRUPTED when the check has stopped it: the stream waits for nothing then. */
DABKE_API dabke_status dabke_wait_stream_checking(dabke_handle* handle, void* stream, double timeout_seconds,
                                                  dabke_check check, void* context);

/* ---- process sets ---- */

/* Collective over the world: every rank calls with the same ranks (order does not matter, duplicates are
 * refused), in the same order of calls. A set that exists already is an error. */
DABKE_API dabke_status dabke_add_process_set(const int32_t* ranks, size_t count,
                                             dabke_process_set* process_set);
/* Collective over the world. The world itself cannot be removed. */
DABKE_API dabke_status dabke_remove_process_set(dabke_process_set process_set);
/* Collective over the ranks of the set alone, a set that all ranks of the job know of after that. A caller
 * that is none of them gets DABKE_ERROR_INVALID_ARGUMENT. Ranks may add and remove several sets in any order;
 * changes of one set keep the order of the calls. It waits for every member, also for one that has joined the
 * world, which may call. Once a rank of the job has shut down, sets are neither added nor removed.
 *
 * A set that exists already is shared: the call gives its id. Each such add takes one removal among the
 * members, and the set ends with the last: its pending operations fail then, and not before. What
 * dabke_add_process_set, the environment or dabke_init_options have made, and the world, counts as one add
 * more, which only dabke_remove_process_set takes back (that of the world nothing does); and
 * dabke_add_process_set of a set that has been added among its members alone gives its id. A removal without
 * an add of its kind is DABKE_ERROR_INVALID_ARGUMENT. */
DABKE_API dabke_status dabke_add_process_set_among_members_async(const int32_t* ranks, size_t count,
                                                                 dabke_handle** handle);
DABKE_API dabke_status dabke_add_process_set_among_members(const int32_t* ranks, size_t count,
                                                           dabke_process_set* process_set);
DABKE_API dabke_status dabke_remove_process_set_among_members_async(dabke_process_set process_set,
                                                                    dabke_handle** handle);
DABKE_API dabke_status dabke_remove_process_set_among_members(dabke_process_set process_set);
/* dabke_add_process_set_among_members_async: the set's id, once it has completed. */
DABKE_API dabke_status dabke_handle_process_set(const dabke_handle* handle, dabke_process_set* process_set);
/* This rank's index within the set, -1 when it is not in it; and the set's size. */
DABKE_API dabke_status dabke_process_set_rank(dabke_process_set process_set, int32_t* rank);
DABKE_API dabke_status dabke_process_set_size(dabke_process_set process_set, int32_t* size);
DABKE_API dabke_status dabke_process_set_included(dabke_process_set process_set, int* included);
/* Writes at most `capacity` world ranks, ascending; *count becomes the set's size. */
DABKE_API dabke_status dabke_process_set_ranks(dabke_process_set process_set, int32_t* ranks, size_t capacity,
                                               size_t* count);
/* Writes at most `capacity` ids, the world's first; *count becomes the number of sets. */
DABKE_API dabke_status dabke_process_set_ids(dabke_process_set* ids, size_t capacity, size_t* count);

/* ---- memory ---- */

/* Memory that ranks of one host work on in place: an allreduce of tensors that lie in it on all ranks needs
 * no copies, and allgather, broadcast and reducescatter save one when their inputs do. A tensor that lies
 * there on some ranks only is treated like any other, so it costs nothing to mix. Where ranks share no
 * memory, this is memory like any other.
 *
 * May be called at any time, also before dabke_init; valid until dabke_free, whatever init and shutdown do.
 * At a multiple of 64 bytes, from 64 KiB on of the page size; not zeroed. NULL when there is not enough:
 * dabke_last_error. After a fork the child sees the parent's memory itself, no copy, and must neither use it
 * for collectives nor free it. Any thread. */
DABKE_API void* dabke_alloc(size_t size_bytes);
/* Waits for this process's operations that use it. NULL is allowed; for what is not dabke_alloc's nothing is
 * done, and dabke_last_error says so. Any thread. */
DABKE_API void dabke_free(void* memory);

/* ---- looking inside ---- */

/* Starts or stops writing the timeline (docs/timeline.md) while the job runs. Starting needs TIMELINE=DYNAMIC
 * or unset. A relative path is relative to the calling process's working directory, on each rank that writes.
 * mark_cycles, other than 0: every round of orders is marked.
 *
 * With TIMELINE_FORMAT=horovod rank 0 writes: its calls count, and those of other ranks do nothing.
 * Otherwise every rank writes, to path.rank<n>, and starts and stops between the same two collectives of the
 * job's one order; as rank 0 closes its file it makes one trace of all, path (docs/timeline.md). Either always one rank calls, whichever, or every rank makes the same
 * calls in the same order, at whatever time; the first to come starts or stops for all.
 *
 * The call waits until its own rank has followed; a stop also until what was ordered before it has run (a second
 * at most) and its file is closed. From any thread, but one call at a time goes on; not from an output
 * allocator or the check of a wait. Stopping what was not started is well.
 * Errors, of the calling rank alone: DABKE_ERROR_INVALID_ARGUMENT when the path is empty, or one is being
 * written; DABKE_ERROR_TRANSPORT when the file cannot be written, or, of a stop, could not be; when the job has
 * ended, why, for a start. */
DABKE_API dabke_status dabke_start_timeline(const char* path, int mark_cycles);
DABKE_API dabke_status dabke_stop_timeline(void);

/* A span of the application's own in the timeline, on a row of the calling thread. Spans nest: an end is that of
 * the last that the same thread has begun. A name ends with a NUL, and is copied; the first 65,536 names have
 * their own, all others share one.
 *
 * From any thread and at any time, also before dabke_init. While no timeline is written, a load, and DABKE_OK;
 * while one is, some hundred nanoseconds, and nothing waits for the file.
 * Errors: DABKE_ERROR_INVALID_ARGUMENT when the name is NULL; for an end, while a timeline is written, when the
 * thread has begun nothing that it could end. */
DABKE_API dabke_status dabke_annotate_begin(const char* name);
DABKE_API dabke_status dabke_annotate_end(void);
/* The training step of this number has ended, on this rank: a mark in the timeline. As the two above. */
DABKE_API dabke_status dabke_mark_step(uint64_t step);

/* One row of the knob table. help is static; the other strings are valid until the calling thread's next call
 * of dabke_config_get. */
typedef struct dabke_config_row {
  size_t struct_size;
  const char* name;         /* DABKE_FUSION_THRESHOLD */
  const char* horovod_name; /* HOROVOD_FUSION_THRESHOLD, or "" */
  const char* flag;         /* --fusion-threshold-mb */
  const char* value;        /* in the running job; the default before init */
  const char* default_value;
  const char* accepts;
  const char* help;
} dabke_config_row;
DABKE_API size_t dabke_config_count(void);
DABKE_API dabke_status dabke_config_get(size_t index, dabke_config_row* row);

/* Counters of this rank since init. */
typedef struct dabke_statistics {
  size_t struct_size;
  uint64_t tensors_submitted;
  uint64_t tensors_completed; /* with whatever result */
  uint64_t tensors_failed;
  uint64_t batches;       /* collectives run; several tensors fused count once */
  uint64_t bytes;         /* of input tensors in these batches */
  uint64_t messages_sent; /* of the negotiation */
  uint64_t messages_received;
  double negotiation_seconds; /* sum over tensors, submit to order received */
  double execution_seconds;   /* sum over batches */
  uint64_t cache_hits;        /* negotiations by number alone */
  uint64_t cache_misses;      /* with the whole signature */
  /* The shortest submit to order received: that of a tensor for which this rank was the last to submit, and
   * so what the negotiation itself takes. 0 before the first. */
  double fastest_negotiation_seconds;
} dabke_statistics;
DABKE_API dabke_status dabke_get_statistics(dabke_statistics* statistics);

/* The same by collective and backend: one row each for what has run on this rank.
 * DABKE_ERROR_INVALID_ARGUMENT past the last row. The strings are static or valid until the calling thread's
 * next call. */
typedef struct dabke_collective_statistics {
  size_t struct_size;
  const char* collective; /* "allreduce", ... */
  const char* backend;    /* "gloo", ... */
  uint64_t batches;
  uint64_t tensors;
  uint64_t bytes;
  double seconds;
} dabke_collective_statistics;
DABKE_API dabke_status dabke_get_collective_statistics(size_t index, dabke_collective_statistics* row);

/* The seconds for which the others have waited for `rank` because it was the last to submit. Complete on rank
 * 0; elsewhere 0. */
DABKE_API dabke_status dabke_get_late_seconds(int rank, double* seconds);

/* Writes what this rank has been doing to the file `path` (replaced if it is there), as JSON: the last few
 * thousand events of its flight recorder (submitted, ordered, started, finished), what it waits for and since
 * when, and the stacks of its threads. Works while the job hangs, and then takes up to about two seconds. Any
 * thread. Errors: INVALID_ARGUMENT without a path, TRANSPORT (with the reason) when the file cannot be
 * written. */
DABKE_API dabke_status dabke_dump(const char* path);
/* Called when a stack of this process is wanted (a stall report, a dump): writes at most `capacity` bytes of
 * text and returns their number. It is called on a thread of the runtime, one call at a time; one that does
 * not return delays nothing. Stays until it is replaced, also over init and shutdown; NULL removes it, and a
 * call that has begun may still be under way then. */
typedef size_t (*dabke_stack_provider)(void* context, char* text, size_t capacity);
DABKE_API dabke_status dabke_set_stack_provider(dabke_stack_provider provider, void* context);

#ifdef __cplusplus
}
#endif
#endif
