#include "launcher/cli/job_timeline.h"
#include "tests/temporary_directory.h"

#include <fstream>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

void make_program(const std::filesystem::path& path) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "#!/bin/sh\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

}  // namespace

TEST_CASE("dabke-timeline is named as it can be called from where the job ran") {
  const test::TemporaryDirectory place;
  const std::filesystem::path root(place / "");
  const std::filesystem::path own = root / "build/launcher/dabkerun";
  CHECK(timeline_tool(own, root / "bin") == "dabke-timeline");  // found nowhere
  make_program(root / "build/timeline_viewer/dabke-timeline");
  CHECK(timeline_tool(own, root / "bin") == root / "build/timeline_viewer/dabke-timeline");
  make_program(root / "build/launcher/dabke-timeline");
  CHECK(timeline_tool(own, root / "bin") == root / "build/launcher/dabke-timeline");
  make_program(root / "bin/dabke-timeline");
  CHECK(timeline_tool(own, root / "bin") == "dabke-timeline");
}

}  // namespace dabke::test
