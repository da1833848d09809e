#include "runtime/diagnosis/dumps/dump_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

#include "tests/child_process.h"
#include "tests/runtime/links/ranks.h"
#include "tests/temporary_directory.h"

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
    REQUIRE(diagnosis::write_dump_in_shared_folder(path, "an earlier and longer one").is_ok());
  }
  SECTION("a file that everybody can read") {
    std::ofstream(path) << "x";
    std::filesystem::permissions(path, std::filesystem::perms(0666));
  }
  SECTION("a second name of a file") { std::filesystem::create_hard_link(target, path); }
  SECTION("a link") { std::filesystem::create_symlink(target, path); }
  SECTION("a link to nowhere") { std::filesystem::create_symlink(directory.path() + "/new", path); }
  SECTION("a pipe that nobody reads") { REQUIRE(::mkfifo(path.c_str(), 0666) == 0); }
  REQUIRE(diagnosis::write_dump_in_shared_folder(path, "dump").is_ok());
  CHECK(text_of(path) == "dump");
  CHECK(mode_of(path) == (S_IFREG | 0600));
  CHECK(text_of(target) == "theirs");
  CHECK_FALSE(std::filesystem::exists(directory.path() + "/new"));
  CHECK(directory.files() == 2);
}

TEST_CASE("of the dumps in a shared folder those of this job and of the newest others stay") {
  TemporaryDirectory directory;
  const auto path = [&](const std::string& name) { return directory.path() + "/" + name; };
  const auto now = std::filesystem::file_time_type::clock::now();
  for (int job = 0; job < 9; ++job) {
    for (int rank = 0; rank < 2; ++rank) {
      const std::string file = path(diagnosis::dump_file_name(std::to_string(job), rank));
      std::ofstream(file) << "x";
      std::filesystem::last_write_time(file, now - std::chrono::hours(job == 0 ? 100 : job));
    }
  }
  for (const char* const other :
       {"dabke-dump.txt", "dabke-dump.json", "dabke-dump.rank0.json", "x.rank0.json"})
    std::ofstream(path(other)) << "x";
  std::filesystem::create_symlink(path("x.rank0.json"), path(diagnosis::dump_file_name("old", 0)));
  diagnosis::remove_old_dumps(directory.path(), "0");
  for (int job = 0; job < 9; ++job) {
    INFO(job);
    for (int rank = 0; rank < 2; ++rank)
      CHECK(std::filesystem::exists(path(diagnosis::dump_file_name(std::to_string(job), rank))) ==
            (job < diagnosis::kKeptDumps));
  }
  CHECK(directory.files() == 2 * diagnosis::kKeptDumps + 5);
  diagnosis::remove_old_dumps("/nowhere/at/all", "0");  // this is not an error
}

TEST_CASE("a rank that is killed while it writes its dump leaves no file") {
  TemporaryDirectory directory;
  const int status = status_in_child([&] {
    const rlimit least{4096, 4096};  // limits the size of a file: a process that writes more is killed
    ::setrlimit(RLIMIT_FSIZE, &least);
    ::signal(SIGXFSZ, SIG_DFL);
    return diagnosis::write_dump_in_shared_folder(directory / "dabke-dump.1.rank0.json",
                                                  std::string(100'000, 'x'))
                   .is_ok()
               ? 0
               : 1;
  });
  CHECK(WIFSIGNALED(status));
  CHECK(directory.files() == 0);
}

TEST_CASE("a dump that its rank did not live to name goes with the dumps of its job") {
  TemporaryDirectory directory;
  const std::string left = directory / (diagnosis::dump_file_name("old", 0) + ".0123456789abcdef");
  std::ofstream(left) << "x";
  std::filesystem::last_write_time(left,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  for (int job = 0; job < diagnosis::kKeptDumps; ++job)
    std::ofstream(directory / diagnosis::dump_file_name(std::to_string(job), 0)) << "x";
  diagnosis::remove_old_dumps(directory.path(), "0");
  CHECK_FALSE(std::filesystem::exists(left));
  CHECK(directory.files() == diagnosis::kKeptDumps);
}

TEST_CASE("what cannot be replaced in a shared folder is an error that names it, and nothing is left") {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/dabke-dump.json";
  std::filesystem::create_directory(path);
  const Status status = diagnosis::write_dump_in_shared_folder(path, "dump");
  CHECK_THAT(status.message(), Catch::Contains("cannot replace dump '" + path + "'"));
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
  CHECK_FALSE(diagnosis::write_dump_in_shared_folder("/nowhere/at/all", "dump").is_ok());
}
