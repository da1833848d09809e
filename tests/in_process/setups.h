// A setup of tests: a data backend and a control channel. The ranks are threads of one process.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace dabke::test {

struct Setup {
  enum class Control { links, sim };  // links: LinkChannel, sim: SimChannel
  /// library: the library's own backends. threads: the test's backend between threads. device,
  /// staged: fake devices, with collectives between them or staged in host memory. nccl: NCCL and
  /// CUDA, over the doubles of tests/fake_cuda.
  enum class Data { library, threads, device, staged, nccl };

  std::string name;
  Control control = Control::sim;
  Data data = Data::threads;
  // library: DABKE_CPU_OPERATIONS; empty: the default. nccl: the same for host
  // tensors; empty: the test's backend.
  std::string cpu_operations = {};
  std::string activity = {};        // prefix of the activities of its small collectives: "TCP_"
  int hosts = 1;                    // with two, the backends between hosts run
  std::string gpu_operations = {};  // nccl: DABKE_GPU_OPERATIONS; empty: the default
  int first_device = 0;             // nccl: the device of rank 0; the other ranks have the next ones

  bool is_on_device() const { return data == Data::device || data == Data::staged || data == Data::nccl; }
  /// True if sums of 16-bit floats are rounded once, and a minimum or maximum with a NaN is a NaN, as in the
  /// host's kernels. NCCL has its own rules (docs/gpu.md).
  bool has_host_floats() const { return data != Data::nccl || gpu_operations == "host"; }
  /// The text for the place of tensors in the description of a call.
  std::string where() const {
    if (!is_on_device()) return "";
    return gpu_operations.empty() ? " on cuda" : " on cuda, device route " + gpu_operations;
  }
  /// The name of the host that a rank has.
  std::string host(int rank, int size) const { return hosts == 1 || 2 * rank < size ? "node" : "node-too"; }
};

/// All setups. A new backend that ranks in one process can use is one more row.
const std::vector<Setup>& all_setups();
/// Throws if there is no setup of that name.
const Setup& setup_named(const std::string& name);
/// The setups that DABKE_TEST_BACKENDS names (separated by commas); all if it is not set.
std::vector<Setup> every_backend();
/// The same. Under a sanitizer, if none is named, half of them, others for each test: a
/// sanitizer finds most faults in any of them.
std::vector<Setup> backends_for_threads();

inline std::ostream& operator<<(std::ostream& out, const Setup& setup) { return out << setup.name; }

}  // namespace dabke::test
