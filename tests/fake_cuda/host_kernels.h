#pragma once

#include <cstddef>
#include <string_view>

namespace dabke::test {

struct HostKernel {
  std::string_view name;
  std::size_t argument_bytes;  // a kernel has one argument
  void (*run)(const void* argument, unsigned blocks, unsigned threads);
};
/// Returns null if there is no kernel of that name.
const HostKernel* find_host_kernel(std::string_view name);

}  // namespace dabke::test
