#include "runtime/store/store.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "tests/run_ranks.h"
#include "tests/runtime/links/ranks.h"
#include "tests/temporary_directory.h"

using namespace dabke;
using namespace dabke::test;
using Catch::Contains;
using namespace std::chrono_literals;

namespace {

/// One kind of store; the same tests run for each. `open` gives each user an
/// object of its own, if the kind has any.
struct Kind {
  std::string name;
  TemporaryDirectory directory;
  std::shared_ptr<store::Store> memory = store::make_memory_store();
  std::shared_ptr<store::Store> open() {
    return name == "memory" ? memory : store::open_file_store(directory.path()).take();
  }
};

}  // namespace

TEST_CASE("a store gives what was set last, to every user, with any bytes") {
  Kind kind{GENERATE(as<std::string>(), "memory", "file")};
  const auto writer = kind.open();
  const auto reader = kind.open();
  const std::string value("a\0b\n\xff", 5);
  REQUIRE(writer->set("links/0", "old").is_ok());
  REQUIRE(writer->set("links/0", value).is_ok());
  REQUIRE(writer->set("links", "a key above another").is_ok());
  REQUIRE(writer->set("../..//strange.value %", "x").is_ok());
  CHECK(*reader->get("links/0", Clock::now()) == value);
  CHECK(*reader->get("links", Clock::now()) == "a key above another");
  CHECK(*reader->get("../..//strange.value %", Clock::now()) == "x");
  CHECK(*reader->get("links/0", kNever) == value);
}

TEST_CASE("get waits for the key, and its error names the key when it does not come") {
  Kind kind{GENERATE(as<std::string>(), "memory", "file")};
  const auto store = kind.open();
  const auto missing = store->get("links/3", Clock::now() + 20ms);
  REQUIRE_FALSE(missing.is_ok());
  CHECK(missing.status().code() == Code::timeout);
  CHECK_THAT(missing.status().message(), Contains("links/3") && Contains(store->describe()));

  auto seen = run_ranks(2, [&](Rank rank) -> std::string {
    const auto mine = kind.open();
    if (rank == 1) return mine->set("late", "here").message();
    auto value = mine->get("late", Clock::now() + 60s);
    return value.is_ok() ? *value : value.status().message();
  });
  CHECK(seen[0] == "here");
}

TEST_CASE("counts are atomic among all users") {
  Kind kind{GENERATE(as<std::string>(), "memory", "file")};
  constexpr int kEach = 50;
  const auto seen = run_ranks(4, [&](Rank) {
    const auto store = kind.open();
    std::vector<std::uint64_t> counts;
    for (int i = 0; i < kEach; ++i) {
      const auto count = store->increment("inits/0");
      counts.push_back(count.is_ok() ? *count : 0);
    }
    return counts;
  });
  std::set<std::uint64_t> all;
  for (const auto& counts : seen) all.insert(counts.begin(), counts.end());
  CHECK(all.size() == 4 * kEach);
  CHECK(*all.rbegin() == 4 * kEach);
  CHECK(*kind.open()->get("inits/0", Clock::now()) == std::to_string(4 * kEach));
  REQUIRE(kind.open()->set("text", "seven").is_ok());
  CHECK_THAT(kind.open()->increment("text").status().message(), Contains("seven"));
}

TEST_CASE("a prefix keeps two users of one store apart, and remove_all leaves the others alone") {
  Kind kind{GENERATE(as<std::string>(), "memory", "file")};
  const auto store = kind.open();
  const auto one = store::with_prefix(store::with_prefix(store, "job"), "1");
  const auto eleven = store::with_prefix(store::with_prefix(store, "job"), "11");
  REQUIRE(one->set("a/b", "x").is_ok());
  REQUIRE(one->set("a", "x").is_ok());
  REQUIRE(eleven->set("a/b", "y").is_ok());
  CHECK(*store->get("job/1/a/b", Clock::now()) == "x");
  REQUIRE(one->remove_all("").is_ok());
  CHECK_FALSE(one->get("a/b", Clock::now()).is_ok());
  CHECK_FALSE(one->get("a", Clock::now()).is_ok());
  CHECK(*eleven->get("a/b", Clock::now()) == "y");
  REQUIRE(one->remove_all("").is_ok());  // an absent key may be removed again
  REQUIRE(eleven->set("a", "z").is_ok());
  REQUIRE(eleven->remove_all("a").is_ok());
  CHECK_FALSE(eleven->get("a", Clock::now()).is_ok());
  REQUIRE(eleven->set("a", "z").is_ok());
  REQUIRE(store->remove_all("").is_ok());
  CHECK_FALSE(eleven->get("a", Clock::now()).is_ok());
  CHECK(kind.directory.files() <= 1);  // one file: the lock
}

TEST_CASE("what is set while its prefix is removed is set before or after that, and neither is an error") {
  Kind kind{GENERATE(as<std::string>(), "memory", "file")};
  constexpr int kRounds = 500;
  std::atomic<bool> over = false;
  const auto seen = run_ranks(3, [&](Rank rank) -> std::string {
    const auto store = kind.open();
    std::string wrong;
    if (rank == 0) {
      while (!over && wrong.empty()) wrong = store->remove_all("waiting").message();
      return wrong;
    }
    for (int i = 0; i < kRounds && wrong.empty(); ++i)
      wrong = store->set(fmt::format("waiting/{}/{}", rank, i), "here").message();
    if (rank == 1) over = true;
    return wrong;
  });
  CHECK(seen == std::vector<std::string>(3));
}

TEST_CASE("the directory of a store is made where it does not exist") {
  TemporaryDirectory directory;
  REQUIRE(store::open_file_store(directory.path() + "/new/job").take()->set("plain", "x").is_ok());
  CHECK(store::open_file_store(directory.path() + "/new/job").take()->get("plain", Clock::now()).take() ==
        "x");
}

TEST_CASE("a directory that cannot be a store is refused by name") {
  TemporaryDirectory directory;
  const auto error = [](const std::string& path) { return store::open_file_store(path).status().message(); };
  CHECK_THAT(error("relative/path"), Contains("relative/path") && Contains("absolute"));
  CHECK_THAT(error("/proc/nowhere"), Contains("/proc/nowhere") && Contains("No such file"));
  REQUIRE(store::open_file_store(directory.path()).take()->set("plain", "x").is_ok());
  CHECK_THAT(error(directory.path() + "/plain.value"),
             Contains("plain.value") && Contains("not a directory"));
  const auto store = store::open_file_store(directory.path()).take();
  std::filesystem::remove_all(directory.path());
  std::ofstream(directory.path()) << "a file where the directory was";
  CHECK_THAT(store->set("a/b", "x").message(), Contains(directory.path()));
  CHECK_THAT(store->get("a/b", Clock::now()).status().message(), Contains(directory.path()));
  CHECK_THAT(store->increment("a").status().message(), Contains(directory.path()));
}

TEST_CASE("a directory that a store may not write is an error that names it") {
  TemporaryDirectory directory;
  REQUIRE(::chmod(directory.path().c_str(), 0555) == 0);
  // Root may write everywhere. For a moment, only this thread becomes another user,
  // which the functions of libc cannot do.
  constexpr uid_t kNobody = 65534;
  const bool is_root = ::geteuid() == 0;
  if (is_root) REQUIRE(::syscall(SYS_setresuid, kNobody, kNobody, 0) == 0);
  const std::string error = store::open_file_store(directory.path()).status().message();
  if (is_root) REQUIRE(::syscall(SYS_setresuid, 0, 0, 0) == 0);
  CHECK_THAT(error, Contains(directory.path()) && Contains("Permission denied"));
}

TEST_CASE("a store leaves no descriptor open") {
  Kind kind{GENERATE(as<std::string>(), "memory", "file")};
  const auto store = kind.open();
  REQUIRE(store->set("a", "1").is_ok());
  const auto before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    REQUIRE(store->set("a", "1").is_ok());
    REQUIRE(store->increment("b").is_ok());
    REQUIRE(store->get("a", kNever).is_ok());
    REQUIRE_FALSE(store->get("nothing", Clock::now() + 2ms).is_ok());
  }
  CHECK(open_descriptors() == before);
}
