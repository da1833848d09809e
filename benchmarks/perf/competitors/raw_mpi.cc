#include "benchmarks/perf/competitors/raw_mpi.h"

#include <dlfcn.h>

#include <filesystem>

#include <fmt/format.h>

#include "benchmarks/perf/jobs/places.h"
#include "runtime/modules/build_id.h"

namespace dabke::perf {
namespace {

class RawMpi final : public Competitor {
 public:
  RawMpi(MpiPeer& peer, const std::string& mpi) : peer_(peer), name_("raw " + mpi) {}

  std::string name() const override { return name_; }
  bool can_run(const Call& call) const override { return peer_.can_run(call); }
  Status begin(const Call& call) override {
    call_ = &call;
    return {};
  }
  Status run() override { return peer_.run(*call_); }
  void end() override {}

 private:
  MpiPeer& peer_;
  const std::string name_;
  const Call* call_ = nullptr;
};

}  // namespace

std::string mpi_peer_path(const std::string& mpi) {
  for (const std::string& folder : {program_folder(), module_folder()}) {
    const std::string path = fmt::format("{}/perf-{}.so", folder, mpi);
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  return {};
}

Result<MpiPeer*> load_mpi_peer(const std::string& mpi) {
  const std::string path = mpi_peer_path(mpi);
  if (path.empty()) {
    return Status(
        Code::not_built,
        fmt::format(
            "there is no perf-{}.so in {} or {}; install the Debian package lib{}-dev and build again, "
            "or leave MPI out with --mpi none",
            mpi, program_folder(), module_folder(), mpi));
  }
  // Never closed, because MPI's threads and exit handlers stay in it.
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return Status(Code::not_built, ::dlerror());
  auto* const entry = reinterpret_cast<MpiPeerEntry*>(::dlsym(handle, kMpiPeerEntry));
  MpiPeer* const peer = entry != nullptr ? entry(modules::kBuildId) : nullptr;
  if (peer == nullptr)
    return Status(Code::mismatch,
                  fmt::format("{} belongs to another build; install both from one build", path));
  return peer;
}

std::unique_ptr<Competitor> make_raw_mpi(MpiPeer& peer, const std::string& mpi) {
  return std::make_unique<RawMpi>(peer, mpi);
}

}  // namespace dabke::perf
