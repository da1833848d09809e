/* The program that lines_of_a_call.py traces: allreduces of 8 bytes. The last ones begin with a signal for
 * the tracer.
 *
 *   one_call FOLDER WARM TRACED PAUSE_MS
 *
 * FOLDER has a pipe "go.RANK" for each rank. */
#define _DEFAULT_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <dabke/dabke.h>

static void must(dabke_status status) {
  if (status == DABKE_OK) return;
  fprintf(stderr, "one_call: %s: %s\n", dabke_status_name(status), dabke_last_error());
  exit(1);
}

/* Writes the id of this process for the tracer, and waits until it has attached. */
static void wait_for_tracer(const char* folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s/pid.%d", folder, dabke_rank());
  FILE* pid = fopen(path, "w");
  if (pid == NULL || fprintf(pid, "%d\n", (int)getpid()) < 0 || fclose(pid) != 0) {
    perror(path);
    exit(1);
  }
  snprintf(path, sizeof path, "%s/go.%d", folder, dabke_rank());
  FILE* go = fopen(path, "r");
  if (go == NULL || fgetc(go) == EOF) {
    fprintf(stderr, "one_call: nobody writes to %s; start this by lines_of_a_call.py\n", path);
    exit(1);
  }
  fclose(go);
}

int main(int argc, char** argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: one_call FOLDER WARM TRACED PAUSE_MS; started by lines_of_a_call.py\n");
    return 2;
  }
  const int warm = atoi(argv[2]), traced = atoi(argv[3]);
  const useconds_t pause_us = (useconds_t)atoi(argv[4]) * 1000;
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  must(dabke_init(NULL));

  float numbers[2] = {0, 0};
  int64_t shape[] = {2};
  DLTensor tensor = {
      .data = numbers, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  dabke_options options = DABKE_OPTIONS_INIT;
  options.op = DABKE_SUM;
  wait_for_tracer(argv[1]);
  for (int i = 0; i < warm + traced; ++i) {
    if (pause_us != 0) usleep(pause_us);
    if (i >= warm) raise(SIGTRAP);
    must(dabke_allreduce("number", &tensor, NULL, &options));
  }
  raise(SIGTRAP);
  must(dabke_shutdown());
  return 0;
}
