// What the runtime is tested over: a data backend and a control channel, among ranks that are threads of one
// process.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace dabke::test {

struct Setup {
  enum class Control { links, sim };  // links: LinkChannel, sim: SimChannel
  /// The library's own backends, those of the test between threads, or on fake devices: with collectives
  /// between these, or staged in the host's memory; or NCCL and CUDA, over the doubles of tests/fake_cuda.
  enum class Data { library, threads, device, staged, nccl };

  std::string name;
  Control control = Control::sim;
  Data data = Data::threads;
  // library: DABKE_CPU_OPERATIONS; empty: as it is. nccl: the same for the host's tensors; empty: those of the test.
  std::string cpu_operations = {};
  std::string activity = {};        // what an activity of its small collectives begins with: "TCP_"
  int hosts = 1;                    // two make the backends between hosts meet
  std::string gpu_operations = {};  // nccl: DABKE_GPU_OPERATIONS; empty: as it is
  int first_device = 0;             // nccl: that of rank 0; the others have those behind it

  bool is_on_device() const { return data == Data::device || data == Data::staged || data == Data::nccl; }
  /// Whether sums of 16-bit floats are rounded once, and a minimum or maximum with a NaN is one, as the host's kernels
  /// have it; NCCL has rules of its own (docs/gpu.md).
  bool has_host_floats() const { return data != Data::nccl || gpu_operations == "host"; }
  /// What the description of a call says of where its tensors are.
  std::string where() const {
    if (!is_on_device()) return "";
    return gpu_operations.empty() ? " on cuda" : " on cuda, device route " + gpu_operations;
  }
  /// The host on which a rank believes to be.
  std::string host(int rank, int size) const { return hosts == 1 || 2 * rank < size ? "node" : "node-too"; }
};

/// Every setup; a new backend that ranks in one process can use is a row of it.
const std::vector<Setup>& all_setups();
/// Throws when there is none of that name.
const Setup& setup_named(const std::string& name);
/// Those that DABKE_TEST_BACKENDS (names separated by commas; unset: all) lets through.
std::vector<Setup> every_backend();
/// The same; where none is named, under a sanitizer, half of them, others for each test: what it finds, it finds in most of them.
std::vector<Setup> backends_for_threads();

inline std::ostream& operator<<(std::ostream& out, const Setup& setup) { return out << setup.name; }

}  // namespace dabke::test
