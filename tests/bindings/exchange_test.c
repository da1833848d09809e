/* Jobs that a program starts by itself: the processes have only pipes, and no environment variables. */
#define _DEFAULT_SOURCE
#define _POSIX_C_SOURCE 200809L
#include <dabke/dabke.h>

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kProcesses = 4, kLimitSeconds = 400 };

/* ---- an allgather over plain pipes: every process has one pipe to the hub, and one from it ---- */

struct pipes {
  int to_hub, from_hub;
};

static int write_all(int fd, const void* data, size_t size) {
  const char* at = data;
  while (size > 0) {
    const ssize_t some = write(fd, at, size);
    if (some <= 0) return -1;
    at += some;
    size -= (size_t)some;
  }
  return 0;
}

static int read_all(int fd, void* data, size_t size) {
  char* at = data;
  while (size > 0) {
    const ssize_t some = read(fd, at, size);
    if (some <= 0) return -1;
    at += some;
    size -= (size_t)some;
  }
  return 0;
}

/* Forwards the blocks of all processes, until all have exited. */
static int serve(const int* from, const int* to, int count) {
  static char blocks[kProcesses][4096];
  int rounds = 0;
  for (;; ++rounds) {
    size_t capacity = 0;
    int i, gone = 0;
    for (i = 0; i < count; ++i) {
      if (read_all(from[i], &capacity, sizeof capacity) != 0 || capacity > sizeof blocks[i] ||
          read_all(from[i], blocks[i], capacity) != 0)
        ++gone;
    }
    if (gone == count) return rounds;
    if (gone > 0) return -1; /* one process has left the others alone in an exchange */
    for (i = 0; i < count; ++i) {
      int block;
      for (block = 0; block < count; ++block) write_all(to[i], blocks[block], capacity);
    }
  }
}

/* ---- a process ---- */

struct process {
  struct pipes pipes;
  int number, count;
  int calls;    /* calls of exchange in this init */
  int fails_in; /* the call in which exchange fails on this process; 0: none */
};

static int failed(const struct process* self, const char* what) {
  fprintf(stderr, "process %d: %s (last error: %s)\n", self->number, what, dabke_last_error());
  return 1;
}
#define EXPECT(condition) \
  if (!(condition)) return failed(self, #condition)
#define EXPECT_SAYS(text) EXPECT(strstr(dabke_last_error(), text) != NULL)

static int exchange(void* context, const void* mine, void* all, size_t capacity) {
  struct process* const self = context;
  if (write_all(self->pipes.to_hub, &capacity, sizeof capacity) != 0 ||
      write_all(self->pipes.to_hub, mine, capacity) != 0 ||
      read_all(self->pipes.from_hub, all, capacity * (size_t)self->count) != 0)
    return -1;
  return ++self->calls == self->fails_in ? 7 : 0;
}

static dabke_init_options options_of(struct process* self) {
  dabke_init_options options = DABKE_INIT_OPTIONS_INIT;
  options.rank = self->number;
  options.size = self->count;
  options.exchange = exchange;
  options.exchange_context = self;
  self->calls = 0;
  return options;
}

/* Checks that this process is rank `rank` of `size`, and that an allreduce adds up all ranks. */
static int works(const struct process* self, int rank, int size) {
  float x[] = {1, (float)rank};
  int64_t shape[] = {2};
  dabke_options sum = DABKE_OPTIONS_INIT;
  DLTensor tensor = {.data = x, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  sum.op = DABKE_SUM;
  EXPECT(dabke_rank() == rank && dabke_size() == size);
  EXPECT(dabke_local_rank() == rank && dabke_local_size() == size);
  EXPECT(dabke_allreduce("x", &tensor, NULL, &sum) == DABKE_OK);
  EXPECT(x[0] == (float)size && x[1] == (float)(size * (size - 1) / 2));
  return 0;
}

/* Runs a whole job of the processes in `ranks` (NULL: of all). */
static int job_of(struct process* self, const int32_t* ranks, int count) {
  dabke_init_options options = options_of(self);
  int rank = self->number, i;
  options.ranks = ranks;
  options.ranks_count = ranks != NULL ? (size_t)count : 0;
  for (i = 0; ranks != NULL && i < count; ++i) {
    if (ranks[i] == self->number) rank = i;
  }
  EXPECT(dabke_init(&options) == DABKE_OK);
  EXPECT(self->calls == 2);
  if (works(self, rank, ranks != NULL ? count : self->count) != 0) return 1;
  EXPECT(dabke_shutdown() == DABKE_OK);
  return 0;
}

/* ---- what a process does ---- */

static int two_jobs(struct process* self) { return job_of(self, NULL, 0) != 0 || job_of(self, NULL, 0) != 0; }

static int despite_the_environment(struct process* self) {
  setenv("DABKE_RANK", "7", 1);
  setenv("DABKE_SIZE", "9", 1);
  setenv("DABKE_LOCAL_RANK", "nonsense", 1);
  setenv("DABKE_RENDEZVOUS", "nowhere", 1);
  setenv("DABKE_JOB_KEY", "nonsense", 1);
  setenv("WORLD_SIZE", "3", 1);
  setenv("RANK", "1", 1);
  return job_of(self, NULL, 0);
}

/* One process is not in the job. */
static int three_of_four(struct process* self) {
  static const int32_t ranks[] = {0, 1, 3};
  if (self->number == 2) {
    dabke_init_options options = options_of(self);
    options.ranks = ranks;
    options.ranks_count = 3;
    EXPECT(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
    EXPECT_SAYS("process 2 of 4 is not a rank of the job, whose ranks are processes 0,1,3");
    EXPECT(self->calls == 2 && !dabke_is_initialized());
    return job_of(self, NULL, 0);
  }
  return job_of(self, ranks, 3) != 0 || job_of(self, NULL, 0) != 0;
}

static int other_numbers(struct process* self) {
  static const int32_t survivors[] = {3, 1, 0}, all[] = {2, 3, 0, 1}, alone[] = {2};
  if (job_of(self, NULL, 0) != 0) return 1;
  if (self->number == 2 ? job_of(self, alone, 1) != 0 : job_of(self, survivors, 3) != 0) return 1;
  return job_of(self, all, 4);
}

static int two_jobs_at_once(struct process* self) {
  static const int32_t first[] = {1, 0}, second[] = {2, 3};
  return job_of(self, self->number < 2 ? first : second, 2);
}

/* The first exchange fails on process 2. The second exchange reports its error to all; the next job works. */
static int exchange_fails(struct process* self) {
  dabke_init_options options = options_of(self);
  self->fails_in = self->number == 2 ? 1 : 0;
  EXPECT(dabke_init(&options) == DABKE_ERROR_TRANSPORT);
  EXPECT_SAYS("exchange, which the program provides, returned 7 on process 2 of 4, in call 1 of 2");
  EXPECT(self->number == 2 || strncmp(dabke_last_error(), "rank 2: ", 8) == 0);
  EXPECT(self->calls == 2 && !dabke_is_initialized());
  self->fails_in = 0;
  return job_of(self, NULL, 0);
}

/* The second exchange fails on process 2. The others wait until the timeout, as for any missing rank:
   rank 0 for the link of rank 2, the others for rank 0. */
static int exchange_fails_late(struct process* self) {
  static const char* const settings[] = {"START_TIMEOUT_SECONDS=1", NULL};
  dabke_init_options options = options_of(self);
  options.settings = settings;
  self->fails_in = self->number == 2 ? 2 : 0;
  if (self->number == 2) {
    EXPECT(dabke_init(&options) == DABKE_ERROR_TRANSPORT);
    EXPECT_SAYS("returned 7 on process 2 of 4, in call 2 of 2");
  } else {
    EXPECT(dabke_init(&options) != DABKE_OK);
    EXPECT(self->number != 0 || strstr(dabke_last_error(), "rank 2 on ") != NULL);
  }
  self->fails_in = 0;
  return job_of(self, NULL, 0);
}

/* The second exchange fails on rank 0, which can still report the error to all. */
static int exchange_fails_at_rank_0(struct process* self) {
  static const char* const settings[] = {"START_TIMEOUT_SECONDS=30", NULL};
  dabke_init_options options = options_of(self);
  options.settings = settings;
  self->fails_in = self->number == 0 ? 2 : 0;
  EXPECT(dabke_init(&options) != DABKE_OK);
  EXPECT_SAYS("returned 7 on process 0 of 4, in call 2 of 2");
  self->fails_in = 0;
  return job_of(self, NULL, 0);
}

static int wrong_knob(struct process* self) {
  static const char* const settings[] = {"FUSION_THRESHOLD=much", NULL};
  dabke_init_options options = options_of(self);
  if (self->number == 3) options.settings = settings;
  EXPECT(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  EXPECT_SAYS("DABKE_FUSION_THRESHOLD");
  EXPECT(self->number == 3 || strncmp(dabke_last_error(), "rank 3: ", 8) == 0);
  EXPECT(self->calls == 2);
  return job_of(self, NULL, 0);
}

static int other_sets(struct process* self) {
  static const char* const settings[] = {"PROCESS_SETS=0,1", NULL};
  dabke_init_options options = options_of(self);
  if (self->number == 1) options.settings = settings;
  EXPECT(dabke_init(&options) == DABKE_ERROR_MISMATCH);
  EXPECT_SAYS("rank 0 was started with process sets '', rank 1 with '0,1'");
  return 0;
}

static int other_ranks(struct process* self) {
  static const int32_t ranks[] = {0, 1, 2, 3}, reversed[] = {0, 1, 3, 2};
  dabke_init_options options = options_of(self);
  options.ranks = self->number == 1 ? reversed : ranks;
  options.ranks_count = 4;
  EXPECT(dabke_init(&options) == DABKE_ERROR_MISMATCH);
  EXPECT_SAYS("rank 0 starts a job of processes 0,1,2,3, rank 1 one of 0,1,3,2");
  return 0;
}

static int wrong_ranks(struct process* self) {
  static const int32_t twice[] = {1, 1};
  dabke_init_options options = options_of(self);
  if (self->number == 1) {
    options.ranks = twice;
    options.ranks_count = 2;
  }
  EXPECT(dabke_init(&options) == DABKE_ERROR_INVALID_ARGUMENT);
  EXPECT_SAYS("ranks has 1 twice");
  EXPECT(self->calls == 2);
  return 0;
}

/* An exchange that gives process 3 the blocks in another order. */
static int swapped(void* context, const void* mine, void* all, size_t capacity) {
  struct process* const self = context;
  char* const blocks = all;
  char kept[4096];
  if (exchange(context, mine, all, capacity) != 0) return 1;
  if (self->number != 3) return 0;
  memcpy(kept, blocks, capacity);
  memcpy(blocks, blocks + capacity, capacity);
  memcpy(blocks + capacity, kept, capacity);
  return 0;
}

static int out_of_order(struct process* self) {
  dabke_init_options options = options_of(self);
  options.exchange = swapped;
  EXPECT(dabke_init(&options) == DABKE_ERROR_MISMATCH);
  EXPECT_SAYS("exchange returned to process 3 the block of process 1 of 4 in the place of process 0 of 4");
  return 0;
}

static int calls_init(void* context, const void* mine, void* all, size_t capacity) {
  struct process* const self = context;
  int result = exchange(context, mine, all, capacity);
  if (dabke_init(NULL) != DABKE_ERROR_INVALID_ARGUMENT || dabke_shutdown() != DABKE_ERROR_INVALID_ARGUMENT)
    result = failed(self, "init or shutdown in exchange");
  return result;
}

static int init_in_exchange(struct process* self) {
  dabke_init_options options = options_of(self);
  options.exchange = calls_init;
  EXPECT(dabke_init(&options) == DABKE_OK);
  if (works(self, self->number, self->count) != 0) return 1;
  EXPECT(dabke_shutdown() == DABKE_OK);
  return 0;
}

static int descriptors(void) {
  DIR* const all = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(all) != NULL) ++count;
  closedir(all);
  return count;
}

/* Waits until the process has at most `count` descriptors, at least for a moment. A store closes the
   connections of its clients late. The last ranks of a job can come and go after the first of them has
   ended. */
static int descriptors_fall_to(int count) {
  const time_t limit = time(NULL) + 60;
  while (descriptors() > count) {
    if (time(NULL) >= limit) return 0;
    sched_yield();
  }
  return 1;
}

/* Descriptors do not pile up, however many jobs run, also with another rank 0: a process keeps one store. */
static int again_and_again(struct process* self) {
  static const int32_t orders[][kProcesses] = {{0, 1, 2, 3}, {1, 2, 3, 0}};
  int round, before = 0;
  for (round = 0; round < 200; ++round) {
    if (job_of(self, orders[round % 2], kProcesses) != 0) return 1;
    if (round == 3) before = descriptors();
  }
  EXPECT(descriptors_fall_to(before));
  return 0;
}

/* ---- all of them ---- */

struct test {
  const char* name;
  int (*run)(struct process* self);
};
static const struct test kTests[] = {
    {"four processes start a job over pipes, without any environment, and another", two_jobs},
    {"what the environment says of rank, size and rendezvous is not looked at", despite_the_environment},
    {"a job is three of the four, and the fourth is told so", three_of_four},
    {"survivors get other numbers, and who was away comes back", other_numbers},
    {"two jobs start in one exchange", two_jobs_at_once},
    {"where exchange fails on one, init fails on all", exchange_fails},
    {"where exchange fails late on one, init fails on the others in time, and rank 0 names it",
     exchange_fails_late},
    {"where exchange fails late on rank 0, the others have its words", exchange_fails_at_rank_0},
    {"a wrong knob of one is the error of all", wrong_knob},
    {"process sets that differ are told with both lists", other_sets},
    {"ranks that differ are told with both lists", other_ranks},
    {"wrong ranks of one are its error, and nobody waits", wrong_ranks},
    {"an exchange that mixes up its blocks is refused", out_of_order},
    {"exchange may not call init or shutdown", init_in_exchange},
    {"two hundred jobs, with two that take turns as rank 0, leave no descriptors", again_and_again},
};

static int run(const struct test* test) {
  int up[kProcesses][2], down[kProcesses][2], from[kProcesses], to[kProcesses];
  int i, j, status, wrong = 0, rounds;
  fflush(stdout);
  for (i = 0; i < kProcesses; ++i) {
    if (pipe(up[i]) != 0 || pipe(down[i]) != 0) return 1;
  }
  for (i = 0; i < kProcesses; ++i) {
    struct process self = {{up[i][1], down[i][0]}, i, kProcesses, 0, 0};
    if (fork() != 0) continue;
    for (j = 0; j < kProcesses; ++j) {
      close(up[j][0]);
      close(down[j][1]);
      if (j == i) continue;
      close(up[j][1]);
      close(down[j][0]);
    }
    clearenv();
    alarm(kLimitSeconds);
    wrong = test->run(&self);
    fflush(NULL);
    _exit(wrong); /* a leak checker would report memory that the fork keeps of its parent on purpose */
  }
  for (i = 0; i < kProcesses; ++i) {
    close(up[i][1]);
    close(down[i][0]);
    from[i] = up[i][0];
    to[i] = down[i][1];
  }
  rounds = serve(from, to, kProcesses);
  for (i = 0; i < kProcesses; ++i) {
    close(from[i]);
    close(to[i]);
  }
  for (i = 0; i < kProcesses; ++i) {
    if (wait(&status) < 0 || status != 0) ++wrong;
  }
  if (rounds < 0) printf("a process was left alone in exchange: ");
  printf("%s %s\n", wrong == 0 && rounds >= 0 ? "ok    " : "FAILED", test->name);
  return wrong != 0 || rounds < 0;
}

int main(int argc, char** argv) {
  size_t i;
  int wrong = 0;
  signal(SIGPIPE, SIG_IGN);
  for (i = 0; i < sizeof kTests / sizeof kTests[0]; ++i) {
    if (argc < 2 || strstr(kTests[i].name, argv[1]) != NULL) wrong += run(&kTests[i]);
  }
  return wrong != 0;
}
