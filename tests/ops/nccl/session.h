// Shared by the tests of the module's parts: the doubles, loaded as the driver and NCCL.
#pragma once

#include <thread>

#include "ops/nccl/nccl_process.h"
#include "tests/fake_cuda/doubles.h"
#include "tests/in_process/rank.h"

namespace dabke::test {

inline ops::NcclProcess& session() {
  static ops::NcclProcess& process = *new ops::NcclProcess;
  must(load_doubles());
  must(process.load_driver());
  must(process.load_nccl("", [](const std::string&) { return std::optional<std::string>(); }));
  return process;
}

inline void await_all(DeviceStream& stream) {
  const auto event = must(stream.record());
  while (!must(event->is_reached())) std::this_thread::yield();
}

}  // namespace dabke::test
