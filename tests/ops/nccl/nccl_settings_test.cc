#include "ops/nccl/nccl_settings.h"

#include <fstream>
#include <map>

#include <catch2/catch.hpp>

#include "ops/nccl/nccl_process.h"
#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"

namespace dabke::test {
using namespace nccl;
namespace {

using Catch::Contains;

Environment with(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

struct Files {
  std::string add(const std::string& name, const std::string& text) const {
    const std::string file = folder.path() + "/" + name;
    std::ofstream(file) << text;
    return file;
  }
  TemporaryDirectory folder;
};

std::string refused(const Environment& environment, const std::vector<std::string>& files) {
  return refuse_blocking(environment, files).message();
}

}  // namespace

TEST_CASE("NCCL's files are the one that NCCL_CONF_FILE names, else the home's, and that of the machine") {
  CHECK(settings_files(with({{"NCCL_CONF_FILE", "/a/b.conf"}})) ==
        std::vector<std::string>{"/a/b.conf", "/etc/nccl.conf"});
  // NCCL does not use HOME.
  const auto files = settings_files(with({{"NCCL_CONF_FILE", ""}, {"HOME", "/nowhere"}}));
  REQUIRE(files.size() == 2);
  CHECK_THAT(files[0], Catch::EndsWith("/.nccl.conf") && !Catch::StartsWith("/nowhere"));
  CHECK(files[1] == "/etc/nccl.conf");
}

TEST_CASE("NCCL_COMM_BLOCKING=1 of a configuration file is refused, with the file and what it says") {
  const Files files;
  const std::string blocks = files.add("blocks.conf", "NCCL_DEBUG=WARN\nNCCL_COMM_BLOCKING=0x1");
  const std::string does_not = files.add("does-not.conf", "#NCCL_COMM_BLOCKING=1\nNCCL_COMM_BLOCKING=0\n");
  const std::string other =
      files.add("other.conf", "# NCCL_COMM_BLOCKING=1\n NCCL_COMM_BLOCKING=1\nNCCL_COMM\n");
  CHECK_THAT(refused(with({}), {other, blocks}),
             Catch::StartsWith("NCCL_COMM_BLOCKING=0x1 in " + blocks + " makes NCCL wait") &&
                 Contains("remove that line"));
  CHECK(refused(with({}), {"/nowhere/nccl.conf", other, does_not}) == "");
  // The first setting counts, and the environment overrides all files.
  CHECK(refused(with({}), {does_not, blocks}) == "");
  CHECK(refused(with({{"NCCL_COMM_BLOCKING", "0"}}), {blocks}) == "");
  CHECK_THAT(refused(with({{"NCCL_COMM_BLOCKING", "01"}}), {does_not}),
             Catch::StartsWith("NCCL_COMM_BLOCKING=01 makes NCCL wait") && Contains("unset it"));
}

TEST_CASE("NCCL is not loaded where its configuration file would let it block") {
  const Files files;
  const std::string blocks = files.add("nccl.conf", "NCCL_COMM_BLOCKING=1\n");
  ops::NcclProcess process;
  CHECK_THAT(process.load_nccl(FAKE_NCCL, with({{"NCCL_CONF_FILE", blocks}})).message(),
             Contains("NCCL_COMM_BLOCKING=1 in " + blocks));
}

}  // namespace dabke::test
