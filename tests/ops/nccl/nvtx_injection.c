/* The profiler for NVTX_INJECTION64_PATH: notes the ranges of each domain, one line each. */
#include <nvtx3/nvToolsExt.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char seen[1 << 16];
static const char* domains[16];
static size_t domain_count;

static void note(const char* what, nvtxDomainHandle_t domain, const char* name) {
  pthread_mutex_lock(&mutex);
  size_t length = strlen(seen);
  snprintf(seen + length, sizeof seen - length, "%s %s %s\n", what, domains[(size_t)domain - 1], name);
  pthread_mutex_unlock(&mutex);
}

static nvtxDomainHandle_t NVTX_API create(const char* name) {
  pthread_mutex_lock(&mutex);
  domains[domain_count++] = name;
  nvtxDomainHandle_t handle = (nvtxDomainHandle_t)domain_count;
  pthread_mutex_unlock(&mutex);
  return handle;
}

static int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  note("begin", domain, attributes->message.ascii);
  return 0;
}

static int NVTX_API pop(nvtxDomainHandle_t domain) {
  note("end", domain, "");
  return 0;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables) {
  const NvtxExportTableCallbacks* callbacks = tables(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable functions;
  unsigned size = 0;
  if (callbacks == NULL || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size))
    return 0;
  *functions[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
  *functions[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
  *functions[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
  return 1;
}

/* All lines until now. For one thread, once the other threads have ended. */
__attribute__((visibility("default"))) const char* nvtx_seen(void) { return seen; }
