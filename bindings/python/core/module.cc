// The compiled part of the package: the C API in Python's types, and no more. The package in Python decides
// the meaning and the defaults of a call. This part decides where the memory of a tensor is, and how long it
// must live.
#include "bindings/python/core/bindings.h"

NB_MODULE(_core, module) {
  using namespace dabke::python;
  nanobind::set_leak_warnings(false);  // a handle that lives when the interpreter ends is not a leak
  bind_numbers(module);
  bind_store_protocol(module);
  bind_refusal(module);
  bind_options(module);
  bind_tensor(module);
  bind_handle(module);
  bind_collectives(module);
  bind_job(module);
  bind_epochs(module);
  bind_process_sets(module);
  bind_memory(module);
  bind_statistics(module);
  bind_stacks(module);
}
