#include "ops/nccl/nccl_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include <fmt/format.h>

#include "runtime/base/threads/signal_keeper.h"

namespace dabke::nccl {
namespace {

constexpr char kSoname[] = "libnccl.so.2";
constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
namespace fs = std::filesystem;

/// Returns the file that contains a function of the library.
std::string file_of(const void* function) {
  Dl_info info{};
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "an unknown file";
}

/// Appends the libraries that exist in "<folder>/lib/python3.11/site-packages/nvidia/nccl/lib".
void add_pythons_of(const fs::path& folder, std::vector<Candidate>& found) {
  std::error_code error;
  std::vector<fs::path> pythons;
  for (const char* name : {"lib", "local/lib"}) {
    for (const auto& entry : fs::directory_iterator(folder / name, error)) {
      const std::string python = entry.path().filename();
      if (python.starts_with("python3")) pythons.push_back(entry.path());
    }
  }
  std::ranges::sort(pythons);
  for (const fs::path& python : pythons) {
    for (const char* packages : {"site-packages", "dist-packages"}) {
      const fs::path file = python / packages / "nvidia/nccl/lib" / kSoname;
      if (fs::exists(file, error)) found.push_back({"pip", file});
    }
  }
}

Result<Library> take(void* handle, const std::string& source) {
  Library library;
#define X(member, in_header, parameters)                                                            \
  library.member = reinterpret_cast<decltype(library.member)>(::dlsym(handle, #in_header));         \
  if (library.member == nullptr) {                                                                  \
    return Status(Code::unsupported, fmt::format("NCCL ({}) has no {}: it is older than 2.18; set " \
                                                 "DABKE_NCCL_LIBRARY to a newer libnccl.so.2",      \
                                                 source, #in_header));                              \
  }
  DABKE_NCCL(X)
#undef X
#define X(member, in_header, parameters) \
  library.member = reinterpret_cast<decltype(library.member)>(::dlsym(handle, #in_header));
  DABKE_LATER_NCCL(X)
#undef X
  library.error_text = reinterpret_cast<decltype(library.error_text)>(::dlsym(handle, "ncclGetErrorString"));
  library.last_error = reinterpret_cast<decltype(library.last_error)>(::dlsym(handle, "ncclGetLastError"));
  DABKE_RETURN_IF_ERROR(check(library, "ncclGetVersion", library.get_version(&library.version)));
  const std::string file = file_of(reinterpret_cast<const void*>(library.get_version));
  if (library.version < kLeastVersion) {
    return Status(
        Code::unsupported,
        fmt::format("NCCL {} ({}: {}) is older than {}; set DABKE_NCCL_LIBRARY to a newer libnccl.so.2",
                    version_text(library.version), source, file, version_text(kLeastVersion)));
  }
  library.text = fmt::format("NCCL {} ({}: {})", version_text(library.version), source, file);
  return library;
}

}  // namespace

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::vector<Candidate> candidates(const std::string& named, const Environment& environment,
                                  const std::string& own_file, const std::string& program) {
  std::vector<Candidate> found;
  if (!named.empty()) found.push_back({"DABKE_NCCL_LIBRARY", named});
  std::error_code error;
  for (fs::path folder = fs::path(own_file).parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    const fs::path file = folder / "nvidia/nccl/lib" / kSoname;
    if (fs::exists(file, error)) found.push_back({"pip", file});
  }
  if (const auto venv = environment("VIRTUAL_ENV"); venv && !venv->empty()) add_pythons_of(*venv, found);
  // The Python of a virtual environment is a link. The link's folder comes before the folder of its target,
  // which /proc shows.
  if (!program.empty() && fs::path(program).filename().string().starts_with("python"))
    add_pythons_of(fs::path(program).parent_path().parent_path(), found);
  return found;
}

Result<Library> load(const std::string& named, const Environment& environment) {
  const SignalKeeper application;
  if (void* const there = ::dlopen(kSoname, kFlags | RTLD_NOLOAD))
    return take(there, "in this process already");
  // A copy of NCCL that a framework has linked into itself cannot be found by its file.
  const bool is_linked_in = ::dlsym(RTLD_DEFAULT, "ncclGetVersion") != nullptr;
  std::error_code error;
  const std::string program = fs::read_symlink("/proc/self/exe", error);
  std::string tried;
  auto places = candidates(named, environment, file_of(reinterpret_cast<const void*>(&load)), program);
  places.push_back({"the loader", kSoname});
  for (const Candidate& candidate : places) {
    void* const handle = ::dlopen(candidate.file.c_str(), kFlags);
    if (handle != nullptr) {
      DABKE_ASSIGN_OR_RETURN(Library library, take(handle, candidate.source));
      if (is_linked_in)
        library.text += ", besides another that is linked into this process and cannot be shared";
      return library;
    }
    const char* const why = ::dlerror();
    // A library that the user has named is never replaced silently.
    if (candidate.source == "DABKE_NCCL_LIBRARY") {
      return Status(Code::unsupported,
                    fmt::format("DABKE_NCCL_LIBRARY={}: {}; set it to a libnccl.so.2, or leave it unset",
                                candidate.file, why));
    }
    tried += fmt::format("; {}: {}", candidate.source, why);
  }
  return Status(
      Code::unsupported,
      fmt::format("NCCL, needed for tensors on CUDA devices, was not found{}; pip install nvidia-nccl-cu12 "
                  "or nvidia-nccl-cu13, or set DABKE_NCCL_LIBRARY to the file libnccl.so.2",
                  tried));
}

std::string_view remedy_for(Error error, std::string_view text) {
  // In lower case: versions of NCCL differ in case too.
  std::string message(text);
  std::ranges::transform(message, message.begin(), [](unsigned char letter) { return std::tolower(letter); });
  const auto has = [&](auto... words) { return ((message.find(words) != std::string::npos) || ...); };
  // The second text is from 2.30 and newer.
  if (has("duplicate gpu detected", "multiple ranks are using the same gpu"))
    return "two ranks use one GPU: give each rank its own, cuda:<local rank>";
  if (has("/dev/shm", "no space left on device", "shared memory"))
    return "shared memory is too small: give the container more (docker run --shm-size=1g), or set "
           "NCCL_SHM_DISABLE=1";
  if (has("no route to host", "connection refused", "network is unreachable", "connection timed out",
          "interface found"))
    return "the ranks do not reach each other over the interface that NCCL chose: set NCCL_SOCKET_IFNAME";
  if (has("mismatched nccl", "nccl version mismatch"))
    return "the ranks have different versions of NCCL: install the same version everywhere";
  if (has("cuda driver version is insufficient"))
    return "the driver is older than this NCCL: install a newer driver, or an NCCL for the driver's CUDA";
  if (error == kRemoteError) return "another rank has ended, or the network between the ranks is down";
  return "";
}

Status check(const Library& library, std::string_view call, Error error, Communicator communicator) {
  if (error == kSuccess || error == kInProgress) return {};
  const char* const text = library.error_text != nullptr ? library.error_text(error) : nullptr;
  const char* const last = library.last_error != nullptr ? library.last_error(communicator) : nullptr;
  std::string message = fmt::format("{}: {} ({})", call, text != nullptr ? text : "an error", error);
  if (last != nullptr && *last != '\0') message += fmt::format(": {}", last);
  while (message.ends_with('\n') || message.ends_with(' ')) message.pop_back();
  if (const std::string_view remedy = remedy_for(error, message); !remedy.empty())
    message += fmt::format("; {}", remedy);
  return {Code::transport, std::move(message)};
}

}  // namespace dabke::nccl
