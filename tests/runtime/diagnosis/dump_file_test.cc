#include "runtime/diagnosis/dump_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

#include "tests/runtime/transport/ranks.h"

using namespace dabke;
using namespace dabke::test;

namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  return info.st_mode;
}

}  // namespace

TEST_CASE("a dump in a shared folder goes into no file, link or pipe that somebody else has put there") {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/dabke-dump.json";
  const std::string target = directory.path() + "/target";
  std::ofstream(target) << "theirs";
  SECTION("nothing is there") {}
  SECTION("an earlier dump") {
    REQUIRE(write_dump_in_shared_folder(path, "an earlier and longer one").is_ok());
  }
  SECTION("a file that everybody can read") {
    std::ofstream(path) << "x";
    std::filesystem::permissions(path, std::filesystem::perms(0666));
  }
  SECTION("a second name of a file") { std::filesystem::create_hard_link(target, path); }
  SECTION("a link") { std::filesystem::create_symlink(target, path); }
  SECTION("a link to nowhere") { std::filesystem::create_symlink(directory.path() + "/new", path); }
  SECTION("a pipe that nobody reads") { REQUIRE(::mkfifo(path.c_str(), 0666) == 0); }
  REQUIRE(write_dump_in_shared_folder(path, "dump").is_ok());
  CHECK(text_of(path) == "dump");
  CHECK(mode_of(path) == (S_IFREG | 0600));
  CHECK(text_of(target) == "theirs");
  CHECK_FALSE(std::filesystem::exists(directory.path() + "/new"));
  CHECK(directory.files() == 2);
}

TEST_CASE("what cannot be replaced in a shared folder is an error that names it, and nothing is left") {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/dabke-dump.json";
  std::filesystem::create_directory(path);
  const Status status = write_dump_in_shared_folder(path, "dump");
  CHECK_THAT(status.message(), Catch::Contains("cannot replace dump '" + path + "'"));
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
  CHECK_FALSE(write_dump_in_shared_folder("/nowhere/at/all", "dump").is_ok());
}
