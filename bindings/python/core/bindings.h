// The functions by which each file of this folder adds its part to the module _core.
#pragma once

#include <nanobind/nanobind.h>

namespace dabke::python {

void bind_numbers(nanobind::module_& module);
void bind_store_protocol(nanobind::module_& module);
void bind_refusal(nanobind::module_& module);
void bind_options(nanobind::module_& module);
void bind_tensor(nanobind::module_& module);
void bind_handle(nanobind::module_& module);
void bind_collectives(nanobind::module_& module);
void bind_job(nanobind::module_& module);
void bind_epochs(nanobind::module_& module);
void bind_process_sets(nanobind::module_& module);
void bind_memory(nanobind::module_& module);
void bind_statistics(nanobind::module_& module);
void bind_stacks(nanobind::module_& module);

/// Notes that the calling thread has submitted an operation.
void note_submit();

}  // namespace dabke::python
