// What the runtime is tested over: a data backend and a control channel, among ranks that are threads of one
// process.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace dabke::testing {

struct Setup {
  // threads: ThreadsBackend; device: tensors on fake devices, with collectives between these; staged: without
  enum class Data { shm, hierarchical, tcp, gloo, threads, device, staged };
  enum class Control { links, sim };  // links: LinkChannel, sim: SimChannel
  std::string name;
  Data data = Data::threads;
  Control control = Control::sim;
  /// The host on which a rank believes to be: two hosts make the backends between hosts meet.
  bool is_on_device() const { return data == Data::device || data == Data::staged; }
  std::string host(int rank, int size) const {
    return data != Data::hierarchical || 2 * rank < size ? "node" : "node-too";
  }
};

/// Every backend that ranks in one process can use, as far as DABKE_TEST_BACKENDS (names separated by commas;
/// unset: all) lets them. ThreadSanitizer builds leave gloo out by it.
std::vector<Setup> backends_for_threads();

inline std::ostream& operator<<(std::ostream& out, const Setup& setup) { return out << setup.name; }

}  // namespace dabke::testing
