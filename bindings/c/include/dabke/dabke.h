/* Dabke: collective communication for distributed training. The C API (C11).
 *
 * Every rank of a job calls dabke_init, hands named tensors to collectives, and calls dabke_shutdown. A name
 * stands for the same tensor on every rank. Ranks may submit in any order: the data moves once all ranks of
 * the process set have submitted the name.
 *
 * Threads     Every function may be called from any thread.
 * Ownership   A function copies names, shapes, options and splits before it returns. It does not copy the
 *             tensors' data: the data must live, and must not be touched, until the operation has completed.
 *             Strings and arrays that a function hands out belong to the library; the comment of each
 *             function states how long they live.
 * Errors      A function that can fail returns a dabke_status. dabke_last_error() returns the text of the
 *             calling thread's last failed call. An operation that fails later has its text in its handle.
 * Units       Times in seconds, sizes in bytes, counts in elements, unless the name states otherwise.
 * Growth      Every struct begins with size_t struct_size = sizeof(the struct). A struct that is longer than
 *             the library's own is accepted if its extra bytes are zero, and refused otherwise. Fields that a
 *             shorter struct lacks get their defaults.
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
  DABKE_IN_PROGRESS = 1, /* dabke_wait timed out, or the operation is still pending; not an error */
  DABKE_ERROR_INVALID_ARGUMENT = 2,
  DABKE_ERROR_NOT_INITIALIZED = 3, /* before dabke_init, or after dabke_shutdown */
  DABKE_ERROR_ALREADY_INITIALIZED = 4,
  DABKE_ERROR_MISMATCH = 5, /* ranks passed different shapes, dtypes, operations, roots, scales or sets */
  DABKE_ERROR_DUPLICATE_NAME = 6,      /* an operation of this name is still pending */
  DABKE_ERROR_UNKNOWN_PROCESS_SET = 7, /* the set does not exist, or this rank is not in it */
  DABKE_ERROR_PEER_LOST = 8,           /* a rank of the job is gone */
  DABKE_ERROR_SHUT_DOWN = 9,           /* a rank has called dabke_shutdown */
  DABKE_ERROR_STALLED = 10,            /* the stall shutdown time is over */
  DABKE_ERROR_ABORTED = 11,            /* a rank has ended the job, as by dabke_abort */
  DABKE_ERROR_TIMEOUT = 12,
  DABKE_ERROR_NOT_IMPLEMENTED = 13,
  DABKE_ERROR_NOT_BUILT = 14,   /* this build lacks the part */
  DABKE_ERROR_UNSUPPORTED = 15, /* no backend can run this */
  DABKE_ERROR_OUT_OF_MEMORY = 16,
  DABKE_ERROR_TRANSPORT = 17,  /* a network or operating system call failed */
  DABKE_ERROR_FORKED = 18,     /* the caller is a forked child of a rank */
  DABKE_ERROR_INTERNAL = 19,   /* a defect of the runtime */
  DABKE_ERROR_INTERRUPTED = 20 /* the check of a wait stopped the wait; the operation is still pending */
} dabke_status;

/* Return the name of a status, such as "peer_lost", and one line on its meaning. The strings are static. For
 * other numbers: "unknown" and "unknown error code". */
DABKE_API const char* dabke_status_name(dabke_status status);
DABKE_API const char* dabke_status_text(dabke_status status);

/* Returns the text of the calling thread's last failed call, or "". Valid until that thread's next failed
 * call. */
DABKE_API const char* dabke_last_error(void);

/* Called during a wait. Returns 0 if the wait goes on, any other number to stop it. */
typedef int (*dabke_check)(void* context);

/* ---- start and end ---- */

typedef int32_t dabke_process_set; /* 0 is the world: the set of all ranks */
#define DABKE_WORLD 0

typedef struct dabke_init_options {
  size_t struct_size;
  /* "NAME=value" pairs from the knob table, such as "TIMELINE=trace.json". They override the environment.
   * NULL-ended; may be NULL. */
  const char* const* settings;
  /* Process sets that init makes at once: process_set_ranks[i] points to process_set_sizes[i] world ranks.
   * They get the ids 1, 2, ... in this order, after the sets of PROCESS_SETS. Errors:
   *   DABKE_ERROR_MISMATCH          the sets differ between ranks; on all ranks, with both lists
   *   DABKE_ERROR_INVALID_ARGUMENT  a set appears twice or is the world */
  const int32_t* const* process_set_ranks;
  const size_t* process_set_sizes;
  size_t process_set_count;
  /* The address of an MPI_Comm of the application. Its processes are the job, in its order, whatever job the
   * environment describes. All of its processes must call dabke_init; others need not. The communicator is
   * duplicated, never freed. NULL: the environment describes the job.
   *
   * DABKE_ERROR_INVALID_ARGUMENT for MPI_COMM_NULL, for an intercommunicator, and before MPI is
   * initialised. */
  const void* mpi_comm;

  /* A job that the program starts by itself, over any channel between its processes: a store, PMI, Ray, MPI
   * of another language. The program passes three values:
   *   exchange  an allgather over these processes
   *   rank      this process's number among the processes that exchange reaches
   *   size      the number of these processes
   * The rank, size, rendezvous and key of the environment are then ignored; its knobs and DABKE_HOSTNAME are
   * read.
   *
   * Every one of these processes calls dabke_init. Each dabke_init calls exchange exactly twice, also where
   * init fails, so that no process waits in exchange for another. An error on one process, such as a bad knob
   * or process set, becomes the error of all, and its text names the process. Exchange is not called where
   * init fails at once: when rank, size or exchange is invalid, after an earlier dabke_init, and in a forked
   * child.
   *
   * DABKE_ERROR_INVALID_ARGUMENT if rank, size or ranks is given without exchange, or exchange together with
   * mpi_comm. */
  int64_t rank;
  int64_t size;
  /* Selects the processes of the job: `ranks_count` of their numbers. Process ranks[i] becomes rank i, so
   * this also renumbers ranks. Every process passes the ranks of its own job, and all processes of a job pass
   * the same ranks; several jobs may start in one exchange. NULL: all processes, with their own numbers.
   *
   * A process that is not in its own `ranks` also calls dabke_init, because exchange needs every process. It
   * takes part in exchange, gets DABKE_ERROR_INVALID_ARGUMENT with a text to that effect, and is in no
   * job. */
  const int32_t* ranks;
  size_t ranks_count;
  /* Sends `capacity` bytes at `mine` to all processes. Fills `all` with the bytes of all processes, in the
   * order of their numbers: size * capacity bytes. `capacity` is the same on every process and at most 4096.
   * Returns 0 for success. Any other number is the error of init, with DABKE_ERROR_TRANSPORT.
   * START_TIMEOUT_SECONDS begins when exchange has returned.
   *
   * The first call passes hosts and process sets. The second call passes what rank 0 has found and made: the
   * address of its store, the job's id, its key, and the epoch. Rank 0 makes the key from the system's random
   * source. A reader of this traffic can join the job, so exchange must use a channel that you trust. Rank 0
   * serves the store. The key stays valid for later jobs of rank 0, as long as its process lives.
   *
   * Called only on the thread that calls dabke_init. It must not call dabke_init or dabke_shutdown. */
  int (*exchange)(void* context, const void* mine, void* all, size_t capacity);
  void* exchange_context;

  /* Called a few times a second on the calling thread, as long as dabke_init waits for other ranks. Not
   * called while dabke_init waits in exchange, in MPI or in Slurm's PMI-2. Once check stops the wait, it is
   * not called again, and dabke_init returns DABKE_ERROR_INTERRUPTED. The ranks that wait for this rank get
   * DABKE_ERROR_ABORTED with a text that names it. Check may make the same calls as in dabke_wait_checking.
   * May be NULL. */
  dabke_check check;
  void* check_context;
  /* The language of the program, "python": error texts then name calls as in that language. NULL: C. */
  const char* language;
} dabke_init_options;
#define DABKE_INIT_OPTIONS_INIT \
  { sizeof(dabke_init_options), NULL, NULL, NULL, 0, NULL, 0, 0, NULL, 0, NULL, NULL, NULL, NULL, NULL }

/* Joins the job that the environment (set by dabkerun) or the options describe; without either, a job of a
 * single rank. `options` may be NULL. May be called again after dabke_shutdown.
 *
 * Every init begins an epoch. Between epochs, ranks may get other numbers, and the job may lose or gain
 * ranks. A new rank waits until rank 0 opens an epoch that has room for it.
 *
 * Returns when all ranks have come. After START_TIMEOUT_SECONDS it fails, and the text names the missing
 * ranks. */
DABKE_API dabke_status dabke_init(const dabke_init_options* options);

/* Leaves the job. Operations that all ranks have agreed on run to their end. Other operations fail with
 * DABKE_ERROR_SHUT_DOWN, also those of ranks that still wait for this rank; their text names it. When the
 * call returns, every callback has returned. Handles stay valid. Without init it does nothing.
 *
 * Process sets without this rank go on, unless one of their ranks negotiates through this rank:
 *   - When rank 0 leaves, the job is over for all ranks.
 *   - When the lowest rank of a host leaves, the job is over at least for the ranks of that host.
 * So call dabke_barrier first where other ranks may still have work.
 *
 * DABKE_ERROR_INVALID_ARGUMENT in every function that the runtime calls, such as a callback, an output
 * allocator or a stack provider: dabke_shutdown would wait for its return. dabke_init is refused there,
 * too. */
DABKE_API dabke_status dabke_shutdown(void);

DABKE_API int dabke_is_initialized(void);

/* Fails every pending and later operation on every rank, with DABKE_ERROR_ABORTED and `reason` (copied). The
 * job is then over; dabke_shutdown must still be called. */
DABKE_API dabke_status dabke_abort(const char* reason);

/* Return this process's place in the job; -1 before init.
 *   local  among the ranks of this host
 *   cross  among the ranks with the same local rank, one on each host */
DABKE_API int dabke_rank(void);
DABKE_API int dabke_size(void);
DABKE_API int dabke_local_rank(void);
DABKE_API int dabke_local_size(void);
DABKE_API int dabke_cross_rank(void);
DABKE_API int dabke_cross_size(void);
/* 1 if every host has the same number of ranks, 0 if not, -1 before init. */
DABKE_API int dabke_is_homogeneous(void);

/* ---- elastic jobs ---- */

/* In an elastic job (dabkerun --min-np) ranks come and go, and every change begins a new epoch. The ranks of
 * an epoch have the numbers 0 to size - 1: survivors first, in their old order, then new processes. No rank
 * is special, and rank 0 may be lost like any other.
 *
 * A rank leaves the epoch for one of two reasons, and then calls dabke_next_epoch:
 *   - An operation has failed with DABKE_ERROR_PEER_LOST, DABKE_ERROR_SHUT_DOWN, DABKE_ERROR_ABORTED or
 *     DABKE_ERROR_TRANSPORT: a rank is gone. The program goes back to its newest commit.
 *   - dabke_announced_changes() is not 0 at a commit: a new process waits, or a host is to be left.
 * A program counts its commits, and saves its state in memory with each. An operation may end well on one
 * rank and fail on another, so survivors may have the commits k and k - 1. dabke_epoch names the newest
 * commit and its holders, in the same words on every rank. Every other rank lacks that state, and gets it
 * from a holder.
 *
 * MPI does not take part in an elastic job. The settings CONTROLLER=mpi and CPU_OPERATIONS=mpi, and mpi_comm
 * and exchange of dabke_init_options, are refused with DABKE_ERROR_UNSUPPORTED. */

typedef struct dabke_epoch_options {
  size_t struct_size;
  int has_commit;  /* 0: this process has no state */
  uint64_t commit; /* the number of its newest commit, if has_commit is not 0 */
  /* Training steps that this process repeats, because they came after that commit. dabkerun prints the
   * greatest number of all ranks. 0: none, or not known. */
  uint64_t repeated_steps;
  /* Called as in dabke_init_options, while dabke_next_epoch waits for other ranks. May be NULL. */
  dabke_check check;
  void* check_context;
} dabke_epoch_options;
#define DABKE_EPOCH_OPTIONS_INIT \
  { sizeof(dabke_epoch_options), 0, 0, 0, NULL, NULL }

/* A rank of the epoch before that has been lost. */
typedef struct dabke_lost_rank {
  int rank;         /* its number in the epoch before */
  const char* host; /* its host */
  const char* why;  /* one line, such as "killed by SIGKILL" */
} dabke_lost_rank;

/* Arrays and strings are valid until the next dabke_init, dabke_next_epoch or dabke_shutdown. */
typedef struct dabke_epoch {
  size_t struct_size;
  uint64_t epoch;          /* from 1 on */
  int rank;                /* of this process; -1 if it has left the job */
  int size;                /* of the epoch; 0 if this process has left the job */
  const int* former_ranks; /* [size]: by rank, the rank in the epoch before; -1: a new process */
  int has_commit;          /* 1 if any rank has a commit */
  uint64_t newest_commit;  /* the greatest number of a commit that any rank has */
  const int* holders;      /* [holder_count]: ranks whose newest commit this is, ascending */
  size_t holder_count;
  const dabke_lost_rank* lost; /* [lost_count]: lost since the epoch before */
  size_t lost_count;
  /* NULL; or the reason why this process has left the job in good order. There is no runtime then, and the
   * process ends with status 0. */
  const char* left_why;
} dabke_epoch;
#define DABKE_EPOCH_INIT \
  { sizeof(dabke_epoch), 0, 0, 0, NULL, 0, 0, NULL, 0, NULL, 0, NULL }

/* Leaves this epoch, broken or not, and joins the next. Every rank of this epoch calls it. Operations that
 * are pending end with their error. Handles stay valid, and so does memory of dabke_alloc. The options of
 * dabke_init (settings, process sets and language) hold for all epochs.
 *
 * Waits until all ranks of this epoch have come or are known to be lost, and until there are enough ranks:
 * dabkerun decides, and ends the job after --elastic-timeout. If a rank is lost while the next epoch forms,
 * the others form another one within the same call.
 *
 * A process set that the program has added goes on under its id, with the new numbers of its ranks, if all
 * of its ranks are in the next epoch. New processes have it, too. If a rank of it is gone, calls with its id
 * fail with DABKE_ERROR_UNKNOWN_PROCESS_SET and a text that names the rank. Sets of the configuration are
 * given by rank, so each epoch has them anew. If a set needs more ranks than there are, calls with its id
 * fail in the same way.
 *
 * `options` may be NULL: this process has no state then. `result` may be NULL. After an error the process has
 * no runtime; it may call this again. dabke_shutdown and dabke_init also lead to the next epoch, without a
 * commit and without the sets that the program has added.
 *   DABKE_ERROR_UNSUPPORTED      the job is not elastic
 *   DABKE_ERROR_NOT_INITIALIZED  dabke_init was never called
 *   DABKE_ERROR_ABORTED          this process was written off, as after a long pause; it must end
 *   DABKE_ERROR_TRANSPORT        dabkerun is gone
 *   DABKE_ERROR_INTERRUPTED      the check has stopped the wait
 *   DABKE_ERROR_INVALID_ARGUMENT an invalid struct (this epoch then goes on); or as in dabke_shutdown */
DABKE_API dabke_status dabke_next_epoch(const dabke_epoch_options* options, dabke_epoch* result);

/* Describes the current epoch, in any job. In a job that is not elastic, all ranks are new, and there is no
 * commit. DABKE_ERROR_NOT_INITIALIZED without a runtime. */
DABKE_API dabke_status dabke_current_epoch(dabke_epoch* result);

/* Returns the number of changes of the job's hosts that this rank has received in this epoch. If it is not 0,
 * all ranks should call dabke_next_epoch at their next commit.
 *
 * The number comes with operations of the world (process set 0). It becomes visible when the program receives
 * the end of such an operation: when a blocking call or a wait returns, when dabke_poll returns 1, and before
 * a callback. So ranks that receive the same operations before a commit see the same
 * number there. Costs less than a microsecond, and sends nothing. */
DABKE_API uint64_t dabke_announced_changes(void);

/* 1 if dabkerun has started this process for an elastic job, 0 if not. Works before dabke_init, too. */
DABKE_API int dabke_is_elastic(void);

/* ---- version and build ---- */

/* Return the version: "0.1.0", static; and MAJOR * 10000 + MINOR * 100 + PATCH. */
DABKE_API const char* dabke_version(void);
DABKE_API int dabke_version_number(void);

/* The built forms return 1 if this build has the backend ("gloo", "mpi", "shm", "tcp", "nccl", "cuda") or the
 * controller ("tcp", "mpi", "shm"), 0 if not. The enabled forms return 1 if the running job uses it; 0 before
 * init. */
DABKE_API int dabke_backend_built(const char* name);
DABKE_API int dabke_backend_enabled(const char* name);
DABKE_API int dabke_controller_built(const char* name);
DABKE_API int dabke_controller_enabled(const char* name);
/* 1 if MPI is in use and may be called from several threads, 0 if it may not, -1 without MPI. */
DABKE_API int dabke_mpi_threads_supported(void);

/* ---- options of a collective ---- */

/* Numbers are Horovod's where Horovod has the operation. */
typedef enum dabke_reduce_op {
  DABKE_AVERAGE = 0, /* the sum over the ranks that took part, divided by their number */
  DABKE_SUM = 1,
  DABKE_ADASUM = 2,
  DABKE_MIN = 3,
  DABKE_MAX = 4,
  DABKE_PRODUCT = 5,
  DABKE_BITWISE_AND = 6, /* bitwise operations: for integers and bool; floating-point tensors are refused */
  DABKE_BITWISE_OR = 7,
  DABKE_BITWISE_XOR = 8
} dabke_reduce_op;

/* The format in which float32 elements of an allreduce travel between hosts. Other collectives, other dtypes
 * and traffic inside a host are not compressed. Must be the same on all ranks. */
typedef enum dabke_compression {
  DABKE_COMPRESSION_NONE = 0,
  DABKE_COMPRESSION_FLOAT16 = 1,
  DABKE_COMPRESSION_BFLOAT16 = 2,
  DABKE_COMPRESSION_DEFAULT = 3 /* the value of DABKE_COMPRESSION in the environment; none if unset */
} dabke_compression;

typedef enum dabke_collective {
  DABKE_ALLREDUCE = 0,
  DABKE_ALLGATHER = 1,
  DABKE_BROADCAST = 2,
  DABKE_ALLTOALL = 3,
  DABKE_REDUCESCATTER = 4,
  DABKE_BARRIER = 5
} dabke_collective;

/* Return the names of the numbers of these enums: "bitwise_xor", "bfloat16", "reducescatter". The numbers
 * count from 0 without a gap. The strings are static; "unknown" for other numbers. */
DABKE_API const char* dabke_reduce_op_name(dabke_reduce_op op);
DABKE_API const char* dabke_compression_name(dabke_compression compression);
DABKE_API const char* dabke_collective_name(dabke_collective collective);

#define DABKE_MOST_DIMENSIONS 64 /* of a tensor */
/* Returns the name of the dtype in row `index` of the table of supported dtypes, such as "float32". Writes
 * its DLPack form to `dtype`, which may be NULL. The string is static; NULL beyond the last row. */
DABKE_API const char* dabke_dtype_name(size_t index, DLDataType* dtype);

typedef struct dabke_handle dabke_handle;

/* Called exactly once for each operation that was submitted with DABKE_OK, when the operation has completed.
 * It runs on a thread of the runtime that holds no lock. It may submit; it must not wait. `handle` is valid
 * during the call, whether or not the caller has freed it. */
typedef void (*dabke_callback)(void* context, dabke_handle* handle, dabke_status status);

/* Provides memory for an output whose size was not known at the call. `tensor` has dtype, device and shape
 * (row-major). The function sets tensor->data, 64-byte aligned if possible, and returns 0. Any other number
 * means that it has no memory. The caller owns the memory. `index` counts the tensors of a group.
 *
 * Called on a thread of the runtime, or on a thread that waits for a result. For a reducescatter, whose sizes
 * are known, it is called on the calling thread. Calls that wait are refused in it with
 * DABKE_ERROR_INVALID_ARGUMENT.
 *
 * If one rank has no memory, only this operation fails. All ranks agree on that before any data moves, and
 * get DABKE_ERROR_OUT_OF_MEMORY with a text that names the rank and the tensor. A group fails as a whole.
 * Other tensors of the same batch run as if this tensor had not been there. Memory that other ranks have
 * provided stays unused. The same holds where the runtime itself has no memory for a large output. */
typedef int (*dabke_output_allocator)(void* context, size_t index, DLTensor* tensor);

typedef struct dabke_options {
  size_t struct_size;
  dabke_process_set process_set;
  dabke_reduce_op op;      /* allreduce, reducescatter */
  int32_t root_rank;       /* broadcast: the world rank that sends its data, also inside a process set */
  double prescale_factor;  /* multiplies every input element before it is reduced */
  double postscale_factor; /* multiplies every result; infinite or NaN for floating-point tensors only */
  const int64_t* splits;   /* alltoall: rows for each rank of the set; NULL: equal parts */
  size_t splits_count;
  const char* group;   /* tensors with the same group name are ordered together; see group_size */
  uint32_t group_size; /* the number of tensors in the group, on every rank. The group fails as a whole where
                        * its rank joins or shuts down before the group is whole. It also fails, with a
                        * mismatch, where ranks give another size or other members; members that are still to
                        * come then fail, too */
  int32_t priority;    /* higher first among tensors that are ready at the same time */
  dabke_compression compression;
  /* For tensors on CUDA devices: a cudaStream_t of their device. Work that is on the stream at the call runs
   * before the operation: work that produces the input, and work that still uses the output's memory. The
   * call records an event there, on the calling thread; no thread of the host waits for it. NULL: the tensors
   * are ready now. The legacy default stream is cudaStreamLegacy, 1. cudaStreamPerThread, 2, is the stream of
   * the calling thread.
   *
   * DABKE_ERROR_INVALID_ARGUMENT for a stream that is being captured into a graph (the capture goes on), for
   * a stream of another device, and for any stream with tensors of the host. */
  void* stream;
  /* A recorded cudaEvent_t after which the input is ready, instead of a stream or beside it. The caller keeps
   * the event, and neither records it again nor destroys it before the operation has completed. An event that
   * was recorded in a capture is refused; the driver may end that capture if it still goes on. */
  void* ready_event;
  dabke_output_allocator output_allocator;
  void* output_allocator_context;
  dabke_callback callback;
  void* callback_context;
  /* join: the CUDA device whose memory this rank uses in the other ranks' collectives of device tensors. -1,
   * or a device that this build or this process does not have: the devices that this rank has used. */
  int64_t device;
  /* For the asynchronous forms: 1 if the calling thread waits for the handle next. Its wait then negotiates
   * by itself, as in the blocking forms, and no other thread is woken; a wake takes tens of microseconds.
   * Until the handle is waited for, polled or freed, other ranks may wait for this rank. 0: the runtime
   * negotiates at once. */
  int64_t wait_follows;
  /* send, recv: only a send and a receive of one tag match. */
  int64_t tag;
  /* Not 0: the calls with this number are made in the same order on all ranks of the set. Then ranks that
   * wait for each other in different calls, the n-th of the sequence on each rank, get DABKE_ERROR_MISMATCH
   * after about half a second. The text has all these calls. Without a sequence they wait until the stall is
   * reported, because ranks may call different names in different orders.
   *
   * Each send and receive is a call as well, but those of one name that follow each other are parts of one.
   * So a gather that consists of messages is one call on all ranks. Not for a receive from any rank. */
  int64_t call_sequence;
} dabke_options;
/* The defaults: world, average, root 0, no scaling. A NULL options pointer means these defaults. A struct of
 * zeros does not: its scale factors are 0. */
#define DABKE_OPTIONS_INIT                                                               \
  {                                                                                      \
    sizeof(dabke_options), DABKE_WORLD, DABKE_AVERAGE, 0, 1.0, 1.0, NULL, 0, NULL, 0, 0, \
        DABKE_COMPRESSION_DEFAULT, NULL, NULL, NULL, NULL, NULL, NULL, -1, 0, 0, 0       \
  }

/* ---- collectives ---- */

/* Reports to the other ranks that this rank's binding refuses a call which it does not pass on to this API.
 * The other ranks of options->process_set, which may have accepted the same call, get an error with this
 * rank's number and `reason` instead of waiting. This rank's own error is the caller's to raise.
 *
 * `name` is the tensor's name, or the first name of a grouped call. A barrier has no name: pass any text that
 * is not empty. Of the options only the process set and the group are read.
 * DABKE_ERROR_INVALID_ARGUMENT for an unknown collective and for an empty reason. */
DABKE_API dabke_status dabke_refuse(dabke_collective collective, const char* name,
                                    const dabke_options* options, const char* reason);

/* Tensors. Dtypes are bool, (u)int8/16/32/64, float16, bfloat16, float32 and float64. Memory is compact,
 * row-major and aligned to the element. Any other tensor is refused, with a text that names it. A tensor
 * without elements may have data == NULL.
 *
 * Names. A name is UTF-8 of 1 to 4096 bytes, and so is the name of a group; any other is refused. A second
 * operation of a name that is still pending on this rank is queued behind the first. With
 * DUPLICATE_NAMES=error its call fails instead with DABKE_ERROR_DUPLICATE_NAME, and no other rank is
 * notified. A grouped call then fails as a whole if one of its names is pending. A name is free again before
 * its handle completes and its callback is called.
 *
 * Asynchronous forms return at once and never block. They return a handle, which the caller frees. `handle`
 * may be NULL when the caller needs no result.
 *
 * Errors. Errors that one rank can find alone are returned at once, without a handle: a bad argument, an
 * unknown process set, a call before init. Errors that only the ranks together can find, such as a mismatch,
 * are the operation's status on every rank. A call that one rank refuses fails on the others, too. Their
 * operation of that name, or the next one, ends with that rank's text instead of waiting for it.
 *
 * Memory. An operation reads its inputs and writes its outputs until it has completed. It works in place
 * where
 *   - `output` is NULL (allreduce, broadcast), or begins where its input begins (every collective), or
 *   - input and output share this rank's part, as with NCCL. The output of a reducescatter is that part of
 *     its input, and the input of an allgather_into is that part of its output.
 * Otherwise an output must not share memory with its input. It must never share memory with another tensor of
 * the same call or group. A violation is refused with DABKE_ERROR_INVALID_ARGUMENT. Two operations that are
 * pending at the same time may read the same memory. Memory that one of them writes must not be used by the
 * other; this is not checked. */

/* Reduces the inputs of all ranks elementwise into `output`. Shape and dtype are the same on every rank. All
 * ranks get the same bits, whatever rounding or flushing of subnormal numbers the calling thread has set.
 *
 *   bool      Any byte but 0 is true. Sum, max and bitwise or are OR; product, min and bitwise and are AND.
 *   integers  Sums and products wrap. An average is the exact quotient, truncated toward zero, even if the
 *             sum exceeds the dtype; only for 64-bit integers the sum must fit. A postscale factor multiplies
 *             an average before it is truncated. The product of an integer and a factor is truncated toward
 *             zero and stays within the dtype's range: int8 100 times 2 is 127. The factor is exact: 1
 *             changes nothing, 0.5 halves. One exception is a factor with more digits than it can hold, like
 *             1.0 / 3. Its product is a whole number where the intended factor gives one: 49 times 1.0 / 49
 *             is 1.
 *   floats    A factor is rounded to the tensor's dtype; for float16 and bfloat16, to float32. The prescale
 *             factor multiplies each input element once. The postscale factor multiplies each result once, an
 *             average too. Each product is rounded. The bitwise operations are refused. */
DABKE_API dabke_status dabke_allreduce_async(const char* name, const DLTensor* input, const DLTensor* output,
                                             const dabke_options* options, dabke_handle** handle);
DABKE_API dabke_status dabke_allreduce(const char* name, const DLTensor* input, const DLTensor* output,
                                       const dabke_options* options);

/* Orders `count` tensors together, all or none, with one handle for all. `outputs` may be NULL (in place). */
DABKE_API dabke_status dabke_grouped_allreduce_async(const char* const* names, const DLTensor* const* inputs,
                                                     const DLTensor* const* outputs, size_t count,
                                                     const dabke_options* options, dabke_handle** handle);
DABKE_API dabke_status dabke_grouped_allreduce(const char* const* names, const DLTensor* const* inputs,
                                               const DLTensor* const* outputs, size_t count,
                                               const dabke_options* options);

/* Concatenates the inputs of all ranks along their first dimension, in the order of the ranks. Only the first
 * dimension may differ between ranks, and may be 0. A tensor has at least one dimension. The output is memory
 * of options->output_allocator, or memory that the handle owns: dabke_handle_output. */
DABKE_API dabke_status dabke_allgather_async(const char* name, const DLTensor* input,
                                             const dabke_options* options, dabke_handle** handle);
/* Blocking: *handle is complete. The caller frees it. */
DABKE_API dabke_status dabke_allgather(const char* name, const DLTensor* input, const dabke_options* options,
                                       dabke_handle** handle);
/* Like dabke_allgather, into memory of the caller; no allocator is called. `output` has the input's dtype,
 * device and dimensions, except the first dimension, which is the sum over all ranks. Ranks that pass an
 * output and ranks that do not may meet in one operation.
 *
 * DABKE_ERROR_INVALID_ARGUMENT on all ranks, before any data moves, in two cases:
 *   - On some rank the output has another first dimension.
 *   - On some rank the input lies in the output, but not at this rank's part.
 * The text names the rank and both shapes. Other tensors run as if this one had not been there. */
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

/* Copies the input of options->root_rank to every rank's output. Shape and dtype are the same on every
 * rank. */
DABKE_API dabke_status dabke_broadcast_async(const char* name, const DLTensor* input, const DLTensor* output,
                                             const dabke_options* options, dabke_handle** handle);
DABKE_API dabke_status dabke_broadcast(const char* name, const DLTensor* input, const DLTensor* output,
                                       const dabke_options* options);

/* Point to point: the `tensor` of one rank is copied to the `tensor` of another. `peer` is the world rank of
 * the other end. Shape and dtype are the same on both.
 *
 * A send and a receive match if they have the same name, tag and process set, and if each names the other as
 * its peer. The n-th send matches the n-th receive, in whatever order other messages come. Both ranks must be
 * in the process set; no other rank takes part or waits. A send may wait until the other rank receives.
 *
 * A receive may name DABKE_ANY_RANK as its peer: it matches a send to this rank of any rank of the process
 * set, and that rank's oldest one. dabke_handle_sender returns that rank. It costs one question to all ranks
 * of the set.
 *
 * DABKE_ERROR_MISMATCH on both ranks if dtype or shape differ; DABKE_ERROR_INVALID_ARGUMENT for a peer that
 * is this rank, or is not in the process set. */
#define DABKE_ANY_RANK (-1)
DABKE_API dabke_status dabke_send_async(const char* name, const DLTensor* tensor, int32_t peer,
                                        const dabke_options* options, dabke_handle** handle);
DABKE_API dabke_status dabke_send(const char* name, const DLTensor* tensor, int32_t peer,
                                  const dabke_options* options);
DABKE_API dabke_status dabke_recv_async(const char* name, const DLTensor* tensor, int32_t peer,
                                        const dabke_options* options, dabke_handle** handle);
DABKE_API dabke_status dabke_recv(const char* name, const DLTensor* tensor, int32_t peer,
                                  const dabke_options* options);

/* Sends row block i of the input to rank i of the set. The output is the received blocks, in the order of
 * their source ranks. options->splits gives the rows of each block; its sum is the first dimension. Without
 * splits the first dimension is divided evenly, and must be a multiple of the set's size. The output's memory
 * is as with allgather. dabke_handle_received_splits returns the number of rows from each rank. */
DABKE_API dabke_status dabke_alltoall_async(const char* name, const DLTensor* input,
                                            const dabke_options* options, dabke_handle** handle);
DABKE_API dabke_status dabke_alltoall(const char* name, const DLTensor* input, const dabke_options* options,
                                      dabke_handle** handle);
/* Like dabke_alltoall, into memory of the caller, as with dabke_allgather_into. The first dimension of
 * `output` is the sum of the rows that this rank receives. Only the asynchronous form has a handle, and so
 * the number of rows from each rank. */
DABKE_API dabke_status dabke_alltoall_into_async(const char* name, const DLTensor* input,
                                                 const DLTensor* output, const dabke_options* options,
                                                 dabke_handle** handle);
DABKE_API dabke_status dabke_alltoall_into(const char* name, const DLTensor* input, const DLTensor* output,
                                           const dabke_options* options);

/* Reduces like allreduce, with any of its operations. Rank i of the set keeps the i-th block of rows. With n
 * ranks and d rows, the first d % n ranks get d / n + 1 rows, the others d / n. If `output` is NULL, the
 * output's memory is as with allgather. dabke_reducescatter needs an output. */
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

/* Completes when every rank of the set has called it. The n-th barrier of a rank in a set is the n-th barrier
 * of all its ranks. Several barriers may be in flight, whatever DUPLICATE_NAMES is. Barriers never collide
 * with the name of a tensor or group. */
DABKE_API dabke_status dabke_barrier_async(const dabke_options* options, dabke_handle** handle);
DABKE_API dabke_status dabke_barrier(const dabke_options* options);

/* Declares that this rank has no more data. Until every rank of the set has joined, this rank takes part in
 * the others' collectives. It contributes the neutral element of the sum, minimum, ..., and no rows in an
 * allgather or alltoall. It does not count in an average. A broadcast from a joined rank is an error.
 *
 * With JOIN=horovod an average is divided by the size of the set. Allgather, broadcast, alltoall and
 * reducescatter then fail beside a joined rank, on all ranks, with DABKE_ERROR_INVALID_ARGUMENT.
 *
 * Completes when all ranks have joined. If `last_rank` is not NULL, *last_rank becomes the world rank that
 * joined last. */
DABKE_API dabke_status dabke_join_async(const dabke_options* options, dabke_handle** handle);
DABKE_API dabke_status dabke_join(const dabke_options* options, int32_t* last_rank);

/* ---- handles ---- */

/* Add a reference to a handle, and free one. A handle outlives shutdown and re-init, until its last reference
 * is freed. Freeing a handle never cancels its operation. */
DABKE_API void dabke_handle_retain(dabke_handle* handle);
DABKE_API void dabke_handle_free(dabke_handle* handle); /* NULL is allowed */

/* Returns 1 if the operation has completed, with success or failure; 0 if not. Never blocks. */
DABKE_API int dabke_poll(const dabke_handle* handle);
/* Waits at most `timeout_seconds`, asleep; negative: without limit. Several threads may wait. Returns the
 * operation's status, or DABKE_IN_PROGRESS after a timeout. */
DABKE_API dabke_status dabke_wait(dabke_handle* handle, double timeout_seconds);
/* Like dabke_wait, with a function that can stop the wait: `check` is called about every 50 ms on the calling
 * thread for as long as the call waits. `check` may be NULL. The thread holds nothing then that others need,
 * so `check` may block, for example on an interpreter's lock. It may submit. Calls that wait, dabke_init and
 * dabke_shutdown are refused in it with DABKE_ERROR_INVALID_ARGUMENT.
 *
 * A wait that check stops returns DABKE_ERROR_INTERRUPTED. The operation goes on, and can be waited for
 * again.
 *
 * One exception: where ranks share memory, a wait without limit may itself run the operation. Other ranks
 * then depend on it, so a stop ends the job. All operations of all ranks fail with DABKE_ERROR_ABORTED, and
 * the text names this rank and the operation. A wait with a limit never runs an operation. */
DABKE_API dabke_status dabke_wait_checking(dabke_handle* handle, double timeout_seconds, dabke_check check,
                                           void* context);
/* Returns the operation's status; DABKE_IN_PROGRESS while it is pending. A final status never changes. */
DABKE_API dabke_status dabke_handle_status(const dabke_handle* handle);
/* Returns the operation's error text, or "" if there is none. It lives as long as the handle. */
DABKE_API const char* dabke_handle_message(const dabke_handle* handle);
/* Return the number of outputs, and output number `index`. The operation must have completed. For an
 * operation on a CUDA device it is enough that dabke_wait_stream has returned DABKE_OK: the memory then
 * exists, and the streams that wait find the data. The tensor lives as long as the handle, and so does memory
 * that the handle owns. */
DABKE_API size_t dabke_handle_output_count(const dabke_handle* handle);
DABKE_API dabke_status dabke_handle_output(const dabke_handle* handle, size_t index, const DLTensor** output);
/* Return output number `index` as a DLPack tensor that owns itself, for a consumer of the DLPack exchange
 * protocol. The first form is for DLPack before 1.0 (a capsule "dltensor"). The second is for DLPack 1.0 and
 * later ("dltensor_versioned"); its flags mark it as writable and not a copy.
 *
 * The tensor refers to the output's own memory and keeps the handle alive until its deleter is called. The
 * deleter is called once, on any thread, also after dabke_handle_free, dabke_shutdown and another dabke_init.
 * A handle gives any number of such tensors; they share the memory. Memory of the caller (in place, a given
 * output, the output allocator's) is handed over as well, but only the caller keeps it alive. That memory
 * must outlive the tensor.
 *
 * Errors; *output is then NULL:
 *   DABKE_IN_PROGRESS             the operation is pending
 *   the operation's own error     the operation has failed
 *   DABKE_ERROR_INVALID_ARGUMENT  the output does not exist */
DABKE_API dabke_status dabke_handle_output_dlpack(dabke_handle* handle, size_t index,
                                                  DLManagedTensor** output);
DABKE_API dabke_status dabke_handle_output_dlpack_versioned(dabke_handle* handle, size_t index,
                                                            struct DLManagedTensorVersioned** output);
/* alltoall: returns the number of rows from each rank of the set, once the output is available. The array
 * lives as long as the handle. */
DABKE_API dabke_status dabke_handle_received_splits(const dabke_handle* handle, const int64_t** splits,
                                                    size_t* count);
/* join: returns the world rank that joined last. */
DABKE_API dabke_status dabke_handle_last_joined_rank(const dabke_handle* handle, int32_t* rank);
/* send, recv: the world rank of the sender. Otherwise like dabke_handle_output. */
DABKE_API dabke_status dabke_handle_sender(const dabke_handle* handle, int32_t* rank);
/* Makes `stream`, a cudaStream_t of the tensors' device, wait for the operation: work that is launched there
 * after this call finds the results. NULL is the legacy default stream; 1 and 2 are as in
 * dabke_options.stream. Any thread may call. Several streams may wait for one operation. The handle may be
 * freed afterwards.
 *
 * The host waits only until the operation has been handed to the device. By then all ranks have
 * submitted it. The host does not wait for its inputs or its data. A part that runs on the host all the same
 * (docs/gpu.md) has done most of its work by then. In three cases the call waits as dabke_wait does, and the
 * stream then has nothing to wait for: a completed operation, one of host tensors, and one without tensors.
 *
 * Errors:
 *   the operation's own error     the operation has failed by then
 *   DABKE_ERROR_INVALID_ARGUMENT  the stream is being captured into a graph, or belongs to another device;
 *                                 the stream is unchanged. Also where dabke_wait is refused
 * After DABKE_OK the operation is still pending and may still fail, for example when a rank is lost. The
 * stream then goes on with unspecified outputs. Only dabke_wait, the handle's status and the callback report
 * the failure; a later operation fails as well. */
DABKE_API dabke_status dabke_wait_stream(dabke_handle* handle, void* stream);
/* Like dabke_wait_stream, with the time limit and the check of dabke_wait_checking while the host waits.
 * Returns DABKE_IN_PROGRESS after a timeout, and DABKE_ERROR_INTERRUPTED if the check has stopped the wait.
 * In both cases the stream waits for nothing. */
DABKE_API dabke_status dabke_wait_stream_checking(dabke_handle* handle, void* stream, double timeout_seconds,
                                                  dabke_check check, void* context);

/* ---- process sets ---- */

/* Adds a process set. Collective over the world: every rank calls with the same ranks, and all ranks make
 * such calls in the same order. The ranks may be in any order; duplicates are refused. A set that exists
 * already is an error. */
DABKE_API dabke_status dabke_add_process_set(const int32_t* ranks, size_t count,
                                             dabke_process_set* process_set);
/* Removes a process set. Collective over the world. The world itself cannot be removed. */
DABKE_API dabke_status dabke_remove_process_set(dabke_process_set process_set);
/* Add and remove a process set. Collective over the ranks of the set only; afterwards all ranks of the job
 * have the set. Ranks may add and remove several sets in any order; changes of one set keep the order of the
 * calls. The operation waits for every member. A member that has joined the world may still call, and is
 * waited for. After a rank of the job has shut down, sets are neither added nor removed.
 *
 * If the set exists already, it is shared: the call returns its id. Each such add needs one removal among the
 * members. The set ends with the last removal; only then do its pending operations fail.
 *
 * A set that dabke_add_process_set, the environment or dabke_init_options have made counts as one more add,
 * which only dabke_remove_process_set removes. The world counts as one more add, too, which nothing removes.
 * dabke_add_process_set of a set that has been added only among its members returns the id of that set.
 *
 * DABKE_ERROR_INVALID_ARGUMENT for a caller that is not a member, and for a removal without an add of its
 * kind. */
DABKE_API dabke_status dabke_add_process_set_among_members_async(const int32_t* ranks, size_t count,
                                                                 dabke_handle** handle);
DABKE_API dabke_status dabke_add_process_set_among_members(const int32_t* ranks, size_t count,
                                                           dabke_process_set* process_set);
DABKE_API dabke_status dabke_remove_process_set_among_members_async(dabke_process_set process_set,
                                                                    dabke_handle** handle);
DABKE_API dabke_status dabke_remove_process_set_among_members(dabke_process_set process_set);
/* dabke_add_process_set_among_members_async: returns the id of the set, once the operation has completed. */
DABKE_API dabke_status dabke_handle_process_set(const dabke_handle* handle, dabke_process_set* process_set);
/* Return this rank's index within the set, or -1 if it is not a member; the set's size; and 1 if this rank is
 * a member, 0 if not. */
DABKE_API dabke_status dabke_process_set_rank(dabke_process_set process_set, int32_t* rank);
DABKE_API dabke_status dabke_process_set_size(dabke_process_set process_set, int32_t* size);
DABKE_API dabke_status dabke_process_set_included(dabke_process_set process_set, int* included);
/* Writes at most `capacity` world ranks, ascending. *count becomes the set's size. */
DABKE_API dabke_status dabke_process_set_ranks(dabke_process_set process_set, int32_t* ranks, size_t capacity,
                                               size_t* count);
/* Writes at most `capacity` ids, the world's first. *count becomes the number of sets. */
DABKE_API dabke_status dabke_process_set_ids(dabke_process_set* ids, size_t capacity, size_t* count);

/* ---- memory ---- */

/* Returns memory that ranks of one host can reach in place. An allreduce whose tensors lie there on all ranks
 * needs no copies. An allgather, broadcast or reducescatter saves one copy when its inputs lie there. A
 * tensor that lies there on some ranks only is treated like any other, so mixing costs nothing. Where ranks
 * share no memory, this is ordinary memory.
 *
 * May be called at any time on any thread, also before dabke_init. The memory is valid until dabke_free,
 * whatever init and shutdown do. It is aligned to 64 bytes, from 64 KiB on to the page size, and not zeroed.
 * NULL if there is not enough; dabke_last_error has the text.
 *
 * After a fork the child sees the parent's memory itself, not a copy. The child must neither use it for
 * collectives nor free it. */
DABKE_API void* dabke_alloc(size_t size_bytes);
/* Frees memory of dabke_alloc, after this process's operations that use it have ended. NULL is allowed. Any
 * other pointer is ignored, and dabke_last_error has a text about it. Any thread may call. */
DABKE_API void dabke_free(void* memory);

/* ---- looking inside ---- */

/* Start and stop the timeline (docs/timeline.md) while the job runs. Starting needs TIMELINE=DYNAMIC or
 * unset. A relative path is relative to the working directory of each process that writes. If mark_cycles is
 * not 0, every round of orders is marked.
 *
 * With TIMELINE_FORMAT=horovod only rank 0 writes: its calls take effect, and calls of other ranks do
 * nothing. Otherwise every rank writes, to path.rank<n>. All ranks start and stop between the same two
 * collectives of the job's one sequence. When rank 0 closes its file, it merges all files into one trace at
 * `path`. Either always the same one rank calls, or every rank makes the same calls in the same order, at any
 * time. The first call starts or stops the timeline for all ranks.
 *
 * The call waits until its own rank has followed. A stop also waits until its file is closed and, for at most
 * a second, until everything that was ordered before it has run. Any thread may call, but calls run one at a
 * time. Calls from an output allocator or the check of a wait are refused. A stop without a running timeline
 * is not an error.
 *
 * Errors, on the calling rank only:
 *   DABKE_ERROR_INVALID_ARGUMENT  the path is empty, or a timeline is running
 *   DABKE_ERROR_TRANSPORT         the file cannot be written; for a stop, could not be written
 *   the cause of the job's end    for a start after the job has ended */
DABKE_API dabke_status dabke_start_timeline(const char* path, int mark_cycles);
DABKE_API dabke_status dabke_stop_timeline(void);

/* Begin and end a span of the application in the timeline, on a row of the calling thread. Spans nest: an end
 * closes the span that the same thread began last. The name is copied. The first 65,536 different names are
 * kept; all others share one name.
 *
 * May be called from any thread at any time, also before dabke_init. Without a running timeline a call is one
 * load, and returns DABKE_OK. With a timeline it takes some hundred nanoseconds, and never waits for the
 * file.
 *
 * DABKE_ERROR_INVALID_ARGUMENT for a NULL name; also for an end without a begin on this thread, while a
 * timeline is running. */
DABKE_API dabke_status dabke_annotate_begin(const char* name);
DABKE_API dabke_status dabke_annotate_end(void);
/* Marks in the timeline that training step `step` has ended on this rank. Threads and cost are as above. */
DABKE_API dabke_status dabke_mark_step(uint64_t step);

/* One row of the knob table. help is static. The other strings are valid until the calling thread's next call
 * of dabke_config_get. DABKE_ERROR_INVALID_ARGUMENT past the last row. */
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
  uint64_t tensors_completed; /* with success or failure */
  uint64_t tensors_failed;
  uint64_t batches;       /* collectives that ran; several fused tensors count once */
  uint64_t bytes;         /* of input tensors in these batches */
  uint64_t messages_sent; /* of the negotiation */
  uint64_t messages_received;
  double negotiation_seconds; /* sum over tensors, from submit to the received order */
  double execution_seconds;   /* sum over batches */
  uint64_t cache_hits;        /* negotiations by a number only */
  uint64_t cache_misses;      /* negotiations with the whole signature */
  /* The shortest time from submit to the received order. That tensor was last submitted by this rank, so this
   * is the time of the negotiation itself. 0 before the first. */
  double fastest_negotiation_seconds;
} dabke_statistics;
DABKE_API dabke_status dabke_get_statistics(dabke_statistics* statistics);

/* The same counters by collective and backend: one row for each pair that has run on this rank.
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

/* Returns the seconds for which other ranks have waited for `rank` because it was the last to submit.
 * Complete on rank 0; 0 on other ranks. */
DABKE_API dabke_status dabke_get_late_seconds(int rank, double* seconds);

/* Writes a dump of this rank to the file `path`, as JSON; an existing file is replaced. A dump has three
 * parts:
 *   - the last few thousand events of the flight recorder: submitted, ordered, started, finished
 *   - what this rank waits for, and since when
 *   - the stacks of its threads
 * The call also works while the job hangs, and then takes up to about two seconds. Any thread may call.
 *
 * DABKE_ERROR_INVALID_ARGUMENT without a path; DABKE_ERROR_TRANSPORT, with the reason, when the file cannot
 * be written. */
DABKE_API dabke_status dabke_dump(const char* path);
/* Called when the runtime needs the stacks of this process, for a stall report or a dump. Writes at most
 * `capacity` bytes of text and returns their number. It runs on a thread of the runtime, one call at a time;
 * a call that does not return delays nothing.
 *
 * A provider stays set until it is replaced, also across init and shutdown. NULL removes it; a call that has
 * begun may still run then. */
typedef size_t (*dabke_stack_provider)(void* context, char* text, size_t capacity);
DABKE_API dabke_status dabke_set_stack_provider(dabke_stack_provider provider, void* context);

#ifdef __cplusplus
}
#endif
#endif
