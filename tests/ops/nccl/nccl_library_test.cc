#include "ops/nccl/nccl_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include <catch2/catch.hpp>

#include "ops/nccl/nccl_dtype.h"
#include "ops/nccl/nccl_session.h"
#include "tests/child_process.h"
#include "tests/facts.h"
#include "tests/skip.h"
#include "tests/temporary_directory.h"

namespace dabke::test {
using namespace nccl;
namespace {

using Catch::Contains;
using test::TemporaryDirectory;
using test::text_in_child;
namespace fs = std::filesystem;

Environment with(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

/// The result of a search for NCCL.
std::string loaded(const std::string& named, const std::string& version_of_double = "23200") {
  return text_in_child([&] {
    ::setenv("FAKE_NCCL_VERSION", version_of_double.c_str(), 1);
    const auto library = load(named, with({}));
    return library ? library->text
                   : std::string(name_of(library.status().code())) + ": " + library.status().message();
  });
}

struct Folder {
  std::string add(const std::string& below) const {
    const fs::path file = path / below;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "no library";
    return file;
  }
  const TemporaryDirectory directory;
  const fs::path path = directory.path();
};

std::vector<std::string> files_of(const std::vector<Candidate>& those) {
  std::vector<std::string> files;
  for (const Candidate& one : those) files.push_back(one.file);
  return files;
}

}  // namespace

TEST_CASE("NCCL is looked for where it is named, then in the folders of pip, nearest first") {
  const Folder folder;
  const std::string of_wheel = folder.add("wheel/site-packages/nvidia/nccl/lib/libnccl.so.2");
  const std::string of_venv = folder.add("venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2");
  const std::string of_python = folder.add("usr/lib/python3.12/dist-packages/nvidia/nccl/lib/libnccl.so.2");
  const auto those = candidates("/named.so", with({{"VIRTUAL_ENV", folder.path / "venv"}}),
                                folder.path / "wheel/site-packages/dabke/lib/dabke/nccl.so",
                                folder.path / "usr/bin/python3.12");
  CHECK(files_of(those) == std::vector<std::string>{"/named.so", of_wheel, of_venv, of_python});
  CHECK(candidates("", with({}), "/nowhere/nccl.so", folder.path / "usr/bin/train").empty());
}

TEST_CASE("an NCCL that is named and cannot be loaded is an error, and no other takes its place") {
  CHECK_THAT(loaded("/nowhere/libnccl.so.2"),
             Catch::StartsWith("unsupported: DABKE_NCCL_LIBRARY=/nowhere/libnccl.so.2: ") &&
                 Contains("or leave it unset"));
}

TEST_CASE("a file that is no NCCL, or too old a one, is refused by name and version") {
  CHECK_THAT(loaded(FAKE_CUDA), Contains("has no ncclGetVersion"));
  CHECK_THAT(loaded(FAKE_NCCL, "21705"), Contains("NCCL 2.17.5 (") && Contains("is older than 2.18.0"));
  CHECK(loaded(FAKE_NCCL, "21805") == "NCCL 2.18.5 (DABKE_NCCL_LIBRARY: " FAKE_NCCL ")");
}

TEST_CASE("an NCCL that is in the process already is the one, whatever else is named") {
  const std::string said = text_in_child([] {
    ::dlopen(FAKE_NCCL, RTLD_NOW);
    const auto library = load("/nowhere/libnccl.so.2", with({}));
    return library ? library->text : library.status().message();
  });
  CHECK(said == "NCCL 2.32.0 (in this process already: " FAKE_NCCL ")");
}

TEST_CASE("where a framework has NCCL linked into it there are two, and that is said") {
  const std::string said = text_in_child([]() -> std::string {
    if (::dlopen(FRAMEWORK, RTLD_NOW | RTLD_GLOBAL) == nullptr) return ::dlerror();
    return loaded(FAKE_NCCL);
  });
  CHECK(said == "NCCL 2.32.0 (DABKE_NCCL_LIBRARY: " FAKE_NCCL
                "), besides another that is linked into this process and cannot be shared");
}

TEST_CASE("what is known of an error's cause is told with it") {
  const auto [error, text, remedy] = GENERATE(table<Error, const char*, const char*>({
      {kInvalidUsage, "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device", "give each rank its"},
      {kSystemError, "Error: failed to extend /dev/shm/nccl-x to 9 bytes", "--shm-size"},
      {kSystemError, "connect failed: No route to host", "NCCL_SOCKET_IFNAME"},
      {kSystemError, "connect to 10.0.0.1 returned Connection timed out", "NCCL_SOCKET_IFNAME"},
      {kRemoteError, "", "another rank has ended"},
  }));
  CHECK_THAT(std::string(remedy_for(error, text)), Contains(remedy));
  CHECK(remedy_for(kInternalError, "something else").empty());
}

TEST_CASE("the words by which a cause is known are those of the NCCL that pip has installed") {
  const auto [words, remedy] = GENERATE(table<const char*, const char*>({
      {"Multiple Ranks are using the same GPU", "give each rank its own"},
      {"Error: failed to create shared memory file", "--shm-size"},
      {"Bootstrap : no socket interface found", "NCCL_SOCKET_IFNAME"},
      {"NET/Socket : No usable listening interface found", "NCCL_SOCKET_IFNAME"},
      {"Mismatched NCCL version detected", "install the same version everywhere"},
      {"NCCL version mismatch with remote peer", "install the same version everywhere"},
      {"CUDA driver version is insufficient", "install a newer driver"},
  }));
  CAPTURE(words);
  CHECK_THAT(std::string(remedy_for(kSystemError, words)), Contains(remedy));
  if (std::string(REAL_NCCL).empty()) DABKE_SKIP("pip has installed no NCCL: pip install nvidia-nccl-cu13");
  const int file = ::open(REAL_NCCL, O_RDONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  const std::size_t bytes = fs::file_size(REAL_NCCL);
  void* const content = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  ::close(file);
  REQUIRE(content != MAP_FAILED);
  CHECK(::memmem(content, bytes, words, std::strlen(words)) != nullptr);
  ::munmap(content, bytes);
}

TEST_CASE("NCCL reduces all dtypes but 16-bit integers, and bits of booleans alone") {
  for (const DType dtype : kDTypes) {
    CAPTURE(name_of(dtype));
    CHECK(ops::nccl_dtype(dtype).has_value() == (dtype != DType::i16 && dtype != DType::u16));
    CHECK(ops::nccl_op(dtype, ReduceOp::sum) == (dtype == DType::b8 ? kMax : kSum));
    CHECK(ops::nccl_op(dtype, ReduceOp::bitwise_and).has_value() == (dtype == DType::b8));
    CHECK_FALSE(ops::nccl_op(dtype, ReduceOp::bitwise_xor).has_value());
    CHECK_FALSE(ops::nccl_op(dtype, ReduceOp::adasum).has_value());
  }
}

TEST_CASE("the NCCL that pip has installed is found by its name, and has all that is called") {
  if (std::string(REAL_NCCL).empty()) DABKE_SKIP("pip has installed no NCCL: pip install nvidia-nccl-cu13");
  CHECK_THAT(loaded(REAL_NCCL), Catch::StartsWith("NCCL 2.") && Contains("(DABKE_NCCL_LIBRARY: "));
}

}  // namespace dabke::test
