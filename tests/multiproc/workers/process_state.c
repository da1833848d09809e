/* Checks and prints the traces that Dabke leaves in the process that calls it. Prints "well done" when they
 * are as promised.
 *
 *   process_state signals       every signal's disposition and the thread's mask stay as they were
 *   process_state rounds        200 rounds of init and shutdown leave nothing behind, here and in dabkerun
 *   process_state key           the job's key is gone from the environment after init; a new init still works
 *   process_state exec          a program that a rank starts gets an error: it is not part of the job
 *   process_state fork-in-init  a child forked while another thread waits in init gets an error at once
 *   process_state fork          children forked at any moment of init and shutdown do not hang
 */
#define _GNU_SOURCE
#include <dabke/dabke.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int fail(const char* what) {
  printf("%s: %s\n", what, dabke_last_error());
  return 1;
}

static int job(void) {
  float one = 1;
  int64_t shape[] = {1};
  DLTensor tensor = {
      .data = &one, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  dabke_options options = DABKE_OPTIONS_INIT;
  options.op = DABKE_SUM;
  if (dabke_allreduce("ones", &tensor, NULL, &options) != DABKE_OK) return fail("allreduce");
  return one == (float)dabke_size() ? 0 : fail("sum");
}

/* ---- signals */

struct signals {
  struct sigaction actions[65];
  sigset_t mask;
};

static void read_signals(struct signals* signals) {
  int number;
  memset(signals, 0, sizeof *signals);
  for (number = 1; number < 65; ++number) sigaction(number, NULL, &signals->actions[number]);
  pthread_sigmask(SIG_SETMASK, NULL, &signals->mask);
}

/* The mark that the C library puts on each action that is set through it, even to its old value. */
enum { kRestorer = 0x04000000 };

static const char* handling(const struct sigaction* action) {
  if (action->sa_handler == SIG_DFL) return "default";
  return action->sa_handler == SIG_IGN ? "ignored" : "a handler";
}

static int compare(const struct signals* before, const char* when) {
  struct signals now;
  int number, changed = 0;
  read_signals(&now);
  for (number = 1; number < 65; ++number) {
    const struct sigaction* was = &before->actions[number];
    const struct sigaction* is = &now.actions[number];
    const int same_mask = sigismember(&before->mask, number) == sigismember(&now.mask, number);
    const int same_flags = ((was->sa_flags ^ is->sa_flags) & ~kRestorer) == 0;
    if (was->sa_handler == is->sa_handler && same_flags && same_mask) continue;
    printf("%s: signal %d (%s) was %s with flags %x, is %s with flags %x%s\n", when, number,
           strsignal(number), handling(was), (unsigned)was->sa_flags, handling(is), (unsigned)is->sa_flags,
           same_mask ? "" : "; its place in the mask has changed");
    changed = 1;
  }
  return changed;
}

static void on_signal(int number) { (void)number; }

static int signals(void) {
  struct signals before;
  int round;
  signal(SIGUSR2, on_signal);
  signal(SIGTERM, SIG_IGN);
  read_signals(&before);
  for (round = 0; round < 2; ++round) {
    if (dabke_init(NULL) != DABKE_OK) return fail("init");
    if (compare(&before, "after init")) return 1;
    if (job() != 0) return 1;
    if (compare(&before, "after an allreduce")) return 1;
    if (dabke_shutdown() != DABKE_OK) return fail("shutdown");
    if (compare(&before, "after shutdown")) return 1;
  }
  return 0;
}

/* ---- resources that many rounds use */

/* kOpenNow: the process that serves the store (dabkerun, or rank 0 under mpirun) may have one connection per
 * rank. */
enum { kWarmRounds = 40, kRounds = 200, kOpenNow = 3, kMostGrowthKiB = 3072 };

struct usage {
  int descriptors, sockets, threads, kib;
};

/* A number from /proc/PID/status. */
static int status_number(int pid, const char* name) {
  char path[64], line[256];
  int number = -1;
  FILE* file;
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  file = fopen(path, "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) number = atoi(line + strlen(name));
  }
  if (file != NULL) fclose(file);
  return number;
}

static struct usage usage_of(int pid) {
  struct usage usage = {0, 0, status_number(pid, "Threads:"), status_number(pid, "VmRSS:")};
  char path[64], target[64];
  struct dirent* entry;
  DIR* directory;
  snprintf(path, sizeof path, "/proc/%d/fd", pid);
  directory = opendir(path);
  while ((entry = readdir(directory)) != NULL) {
    const ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1);
    if (length < 0) continue;
    target[length] = 0;
    ++usage.descriptors;
    if (strncmp(target, "socket:", 7) == 0) ++usage.sockets;
  }
  closedir(directory);
  return usage;
}

/* The system gives memory in pieces of up to 1 MiB. Memory that a sanitizer keeps is not counted. */
static int has_grown(const char* who, struct usage before, struct usage after) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const int grown = 0;
#else
  const int grown = after.kib - before.kib;
#endif
  printf(
      "%s after %d and %d rounds: %d and %d descriptors (%d and %d sockets), %d and %d threads, %d and %d "
      "KiB\n",
      who, kWarmRounds, kRounds, before.descriptors, after.descriptors, before.sockets, after.sockets,
      before.threads, after.threads, before.kib, after.kib);
  return after.descriptors > before.descriptors + kOpenNow || after.threads > before.threads ||
         grown > kMostGrowthKiB;
}

static int is_dabkerun(int pid) {
  char path[64], name[32] = "";
  FILE* file;
  snprintf(path, sizeof path, "/proc/%d/comm", pid);
  file = fopen(path, "r");
  if (file == NULL) return 0;
  if (fgets(name, sizeof name, file) == NULL) name[0] = 0;
  fclose(file);
  return strcmp(name, "dabkerun\n") == 0;
}

/* Retries: an ended thread or process is listed until the kernel, or dabkerun, has removed it. */
static int stays_grown(const char* who, int pid, struct usage before) {
  int tries;
  for (tries = 0; tries < 60; ++tries) {
    if (!has_grown(who, before, usage_of(pid))) return 0;
    usleep(500000);
  }
  return 1;
}

static int rounds(void) {
  const int launcher = status_number(getppid(), "PPid:"); /* the supervisor's parent */
  const int has_launcher = is_dabkerun(launcher);
  struct usage mine = {0, 0, 0, 0}, its = mine;
  int round, grown = 0;
  for (round = 1; round <= kRounds; ++round) {
    if (dabke_init(NULL) != DABKE_OK) return fail("init");
    if (job() != 0) return 1;
    if (dabke_shutdown() != DABKE_OK) return fail("shutdown");
    if (round != kWarmRounds) continue;
    mine = usage_of(getpid());
    if (has_launcher) its = usage_of(launcher);
  }
  grown = stays_grown("a rank", getpid(), mine);
  if (has_launcher) grown |= stays_grown("dabkerun", launcher, its);
  return grown;
}

/* ---- the key */

static int file_has(const char* path, const char* text) {
  char bytes[1 << 16];
  FILE* const file = fopen(path, "r");
  const size_t length = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  return memmem(bytes, length, text, strlen(text)) != NULL;
}

static int key(void) {
  char text[128], command[256];
  const char* const given = getenv("DABKE_JOB_KEY");
  int round;
  if (given == NULL || strlen(given) != 64) return fail("no key");
  strcpy(text, given);
  if (!file_has("/proc/self/environ", text)) return fail("the key is not where this test looks");
  snprintf(command, sizeof command, "env | grep -q %s", text);
  for (round = 0; round < 3; ++round) {
    if (dabke_init(NULL) != DABKE_OK) return fail("init");
    if (strstr(getenv("DABKE_JOB_KEY"), text) != NULL) return fail("getenv has the key");
    if (file_has("/proc/self/environ", text)) return fail("/proc/self/environ has the key");
    if (system(command) == 0) return fail("a program that was started has the key");
    if (job() != 0) return 1;
    if (dabke_shutdown() != DABKE_OK) return fail("shutdown");
  }
  setenv("DABKE_JOB_KEY", "no key", 1); /* values that the program sets now count */
  if (dabke_init(NULL) != DABKE_ERROR_INVALID_ARGUMENT) return fail("a new key is not read");
  return 0;
}

static int started(void) {
  if (dabke_init(NULL) != DABKE_ERROR_INVALID_ARGUMENT) return fail("a program of a rank came in");
  if (strstr(dabke_last_error(), "was taken by the rank") == NULL) return fail("a program of a rank");
  return 0;
}

static int exec_of(const char* program) {
  char command[4096];
  int end;
  snprintf(command, sizeof command, "'%s' started", program);
  if (dabke_init(NULL) != DABKE_OK) return fail("init");
  end = system(command);
  if (job() != 0) return 1;
  if (dabke_shutdown() != DABKE_OK) return fail("shutdown");
  return end == 0 ? 0 : 1;
}

/* ---- fork */

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int sockets(void) {
  int count = 0;
  struct dirent* entry;
  DIR* const directory = opendir("/proc/self/fd");
  while ((entry = readdir(directory)) != NULL) {
    struct stat info;
    if (atoi(entry->d_name) > 2 && fstat(atoi(entry->d_name), &info) == 0 && S_ISSOCK(info.st_mode)) ++count;
  }
  closedir(directory);
  return count;
}

/* kAtOnce, in seconds: a child must fail within this time. It is less than the start of the job takes, for
 * which a child must not wait (DABKE_START_TIMEOUT_SECONDS is 20). It is more than the delay that a busy
 * machine may cause. kHangs: a child that takes longer has hung. */
enum { kAtOnce = 10, kHangs = 60 };

static int forked_child(void) {
  const double begin = now();
  int ok = dabke_init(NULL) == DABKE_ERROR_FORKED && dabke_barrier(NULL) == DABKE_ERROR_FORKED;
  if (!ok) printf("a child got: %s\n", dabke_last_error());
  ok = ok && dabke_shutdown() == DABKE_OK && dabke_is_initialized() == 0;
  if (now() - begin > kAtOnce) printf("a child waited for %g s\n", now() - begin);
  return ok && now() - begin <= kAtOnce ? 0 : 1;
}

/* Forks one child after the other until stop_forking is set. */
static atomic_int stop_forking;
static void* fork_on(void* children) {
  long failed = 0;
  while (!atomic_load(&stop_forking)) {
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
      alarm(kHangs);        /* a child that hangs dies, and counts as failed */
#ifndef __SANITIZE_THREAD__ /* under which the child of a threaded process may not start threads */
      /* A child forked between two jobs may have a job of its own. No child may hang. */
      if (dabke_init(NULL) != DABKE_OK && strstr(dabke_last_error(), "forked") == NULL) _exit(1);
#endif
      _exit(dabke_shutdown() == DABKE_OK ? 0 : 1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
      ++failed;
    ++*(long*)children;
  }
  return (void*)failed;
}

static void* init_thread(void* done) {
  *(int*)done = dabke_init(NULL);
  return NULL;
}

/* Forks a child of a rank that waits in init for another rank. The child must get the error of a forked
 * child, and hold no socket. */
static int fork_in_init(void) {
  pthread_t thread;
  int result = 0, status = 0;
  const int before = sockets();
  pid_t child;
  setenv("DABKE_RANK", "0", 1);
  setenv("DABKE_SIZE", "2", 1);
  pthread_create(&thread, NULL, init_thread, &result);
  /* The file of the hello shows that init has reached its wait. */
  while (access(getenv("HELLO"), F_OK) != 0) usleep(1000);
  child = fork();
  if (child == 0) {
    alarm(kHangs);
    if (sockets() != before) printf("a child has %d sockets of %d\n", sockets(), before);
    _exit(forked_child());
  }
  waitpid(child, &status, 0);
  pthread_join(thread, NULL);
  if (result != DABKE_ERROR_TIMEOUT) return fail("init without the other rank");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

static int fork_all_along(void) {
  long children = 0;
  void* failed = NULL;
  pthread_t thread;
  int round;
  pthread_create(&thread, NULL, fork_on, &children);
  for (round = 0; round < 20; ++round) {
    if (dabke_init(NULL) != DABKE_OK) return fail("init");
    if (dabke_shutdown() != DABKE_OK) return fail("shutdown");
  }
  atomic_store(&stop_forking, 1);
  pthread_join(thread, &failed);
  if (failed != NULL) printf("%ld of %ld children did not end\n", (long)failed, children);
  return failed == NULL ? 0 : 1;
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  int result = 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (strcmp(what, "signals") == 0) result = signals();
  if (strcmp(what, "rounds") == 0) result = rounds();
  if (strcmp(what, "key") == 0) result = key();
  if (strcmp(what, "exec") == 0) result = exec_of(argv[0]);
  if (strcmp(what, "started") == 0) return started();
  if (strcmp(what, "fork-in-init") == 0) result = fork_in_init();
  if (strcmp(what, "fork") == 0) result = fork_all_along();
  if (result == 0) printf("well done\n");
  return result;
}
