#include "runtime/bootstrap/bootstrap.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <optional>
#include <thread>

#include "runtime/control/link_channel.h"
#include "runtime/links/tcp_link.h"
#include "runtime/store/http_store.h"
#include "tests/patience.h"
#include "tests/run_ranks.h"
#include "tests/runtime/links/ranks.h"
#include "tests/skip.h"
#include "tests/temporary_directory.h"
#include "tests/thread_count.h"
#include "tests/variables.h"

using namespace dabke;
using namespace dabke::test;
using Catch::Contains;

namespace {

Variables rank_variables(Rank rank, int size, const std::string& directory) {
  return {{"DABKE_RANK", std::to_string(rank)},
          {"DABKE_SIZE", std::to_string(size)},
          {"DABKE_RENDEZVOUS", "file:" + directory}};
}

std::string error_of(const Variables& variables, double start_timeout = 60) {
  Config config;
  config.start_timeout = start_timeout;
  const auto joined = bootstrap::bootstrap(config, environment_of(variables));
  return joined.is_ok() ? "no error" : joined.status().message();
}

/// Runs every rank on a thread with its own variables. Returns the results.
std::vector<bootstrap::Bootstrapped> bootstrap_all(int size, const std::string& directory,
                                                   const std::vector<std::string>& hosts = {},
                                                   const Variables& more = {}) {
  return run_ranks(size, [&](Rank rank) {
    Variables variables = rank_variables(rank, size, directory);
    if (!hosts.empty()) variables["DABKE_HOSTNAME"] = hosts[static_cast<std::size_t>(rank)];
    variables.insert(more.begin(), more.end());
    auto joined = bootstrap::bootstrap({}, environment_of(variables));
    if (joined.is_ok()) return joined.take();
    bootstrap::Bootstrapped failed;
    failed.world.hosts = {joined.status().message()};
    return failed;
  });
}

const std::string kId(32, 'a');
const std::string kKey(64, 'b');

}  // namespace

TEST_CASE("without a launcher there is a world of one") {
  const Variables variables = GENERATE(Variables{}, Variables{{"DABKE_SIZE", "1"}},
                                       Variables{{"DABKE_SIZE", "1"}, {"DABKE_RANK", "0"}});
  const auto joined = bootstrap::bootstrap({}, environment_of(variables));
  REQUIRE(joined.is_ok());
  CHECK(joined->world.rank == 0);
  CHECK(joined->world.size == 1);
  CHECK(joined->world.local_size == 1);
  CHECK(joined->world.cross_size == 1);
  CHECK(joined->world.epoch == 1);
  CHECK(joined->world.hosts.size() == 1);
  CHECK(joined->world.is_homogeneous);
  CHECK(joined->world.job_id != JobId{});
  CHECK(joined->store->describe() == "memory");
}

TEST_CASE("ranks meet in a directory, find their places from the host names, and share a secret") {
  TemporaryDirectory directory;
  const std::vector<std::string> hosts{"a", "b", "a", "b", "a"};
  const auto joined = bootstrap_all(5, directory.path(), hosts);
  std::vector<int> local_ranks, local_sizes, cross_ranks, cross_sizes;
  for (Rank rank = 0; rank < 5; ++rank) {
    const World& world = joined[static_cast<std::size_t>(rank)].world;
    REQUIRE(world.hosts == hosts);
    CHECK(world.rank == rank);
    CHECK(world.size == 5);
    CHECK(world.job_id == joined[0].world.job_id);
    CHECK(world.job_key == joined[0].world.job_key);
    CHECK(world.epoch == 1);
    CHECK_FALSE(world.is_homogeneous);
    local_ranks.push_back(world.local_rank);
    local_sizes.push_back(world.local_size);
    cross_ranks.push_back(world.cross_rank);
    cross_sizes.push_back(world.cross_size);
  }
  CHECK(local_ranks == std::vector{0, 0, 1, 1, 2});
  CHECK(local_sizes == std::vector{3, 2, 3, 2, 3});
  CHECK(cross_ranks == std::vector{0, 1, 0, 1, 0});
  CHECK(cross_sizes == std::vector{2, 2, 2, 2, 1});
  struct stat info {};
  REQUIRE(::stat((directory.path() + "/job-secret").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(bootstrap_all(4, directory.path() + "/", {"a", "b", "b", "a"})[0].world.is_homogeneous);
}

TEST_CASE("what the launcher says is taken as it is, by either name") {
  TemporaryDirectory directory;
  const auto joined =
      bootstrap::bootstrap({}, environment_of({{"HOROVOD_RANK", "0"},
                                               {"HOROVOD_SIZE", "1"},
                                               {"HOROVOD_LOCAL_RANK", "0"},
                                               {"HOROVOD_LOCAL_SIZE", "1"},
                                               {"DABKE_CROSS_RANK", "0"},
                                               {"HOROVOD_CROSS_RANK", "not read"},
                                               {"DABKE_CROSS_SIZE", "1"},
                                               {"DABKE_HOSTNAME", "named"},
                                               {"DABKE_RENDEZVOUS", "file:" + directory.path()},
                                               {"DABKE_JOB_ID", kId},
                                               {"DABKE_JOB_KEY", kKey}}));
  REQUIRE(joined.is_ok());
  CHECK(joined->world.hosts == std::vector<std::string>{"named"});
  CHECK(to_hex(joined->world.job_id) == kId);
  CHECK(to_hex(joined->world.job_key) == kKey);
  CHECK_FALSE(std::filesystem::exists(directory.path() + "/job-secret"));
  REQUIRE(joined->store->set("seen", "x").is_ok());
  CHECK(*store::open_file_store(directory.path()).take()->get(kId + "/1/seen", Clock::now()) == "x");
}

TEST_CASE("wrong variables are refused by name, value and remedy") {
  TemporaryDirectory directory;
  const std::string file = "file:" + directory.path();
  const auto refuses = [](const Variables& variables, const std::vector<std::string>& needles) {
    const std::string error = error_of(variables);
    for (const auto& needle : needles) CHECK_THAT(error, Contains(needle));
  };
  refuses({{"DABKE_SIZE", "2"}, {"DABKE_RANK", "0"}},
          {"DABKE_SIZE is 2", "DABKE_RENDEZVOUS is not set", "dabkerun", "file:/"});
  refuses({{"HOROVOD_SIZE", "2"}, {"HOROVOD_RANK", "0"}}, {"HOROVOD_SIZE is 2", "DABKE_RENDEZVOUS"});
  refuses({{"DABKE_SIZE", "2"}, {"DABKE_RENDEZVOUS", file}}, {"DABKE_RANK is not set"});
  refuses({{"DABKE_RANK", "0"}}, {"DABKE_SIZE is not", "dabkerun"});
  refuses({{"DABKE_RENDEZVOUS", file}}, {"DABKE_SIZE is not"});
  refuses({{"DABKE_SIZE", "0"}}, {"DABKE_SIZE is '0'", "from 1"});
  refuses({{"DABKE_SIZE", "two"}}, {"DABKE_SIZE is 'two'"});
  refuses({{"DABKE_SIZE", "2"}, {"DABKE_RANK", "-1"}}, {"DABKE_RANK is '-1'", "from 0"});
  refuses({{"DABKE_SIZE", "2"}, {"HOROVOD_RANK", "2"}},
          {"HOROVOD_RANK is 2", "below DABKE_SIZE, which is 2"});
  refuses({{"DABKE_LOCAL_RANK", "0"}, {"DABKE_CROSS_SIZE", "1"}},
          {"DABKE_LOCAL_RANK is set", "DABKE_LOCAL_SIZE, DABKE_CROSS_RANK"});
  refuses({{"DABKE_LOCAL_RANK", "1"},
           {"DABKE_LOCAL_SIZE", "1"},
           {"DABKE_CROSS_RANK", "0"},
           {"DABKE_CROSS_SIZE", "1"}},
          {"DABKE_LOCAL_RANK is 1", "DABKE_LOCAL_SIZE, which is 1"});
  refuses({{"DABKE_LOCAL_RANK", "0"},
           {"DABKE_LOCAL_SIZE", "3"},
           {"DABKE_CROSS_RANK", "0"},
           {"DABKE_CROSS_SIZE", "1"}},
          {"DABKE_LOCAL_SIZE is 3", "size of the job, 1"});
  refuses({{"DABKE_HOSTNAME", "two words"}}, {"DABKE_HOSTNAME", "two words"});
  refuses({{"DABKE_SIZE", "1"}, {"DABKE_RENDEZVOUS", "ftp://x"}}, {"'ftp://x'", "http://host:port"});
  refuses({{"DABKE_SIZE", "1"}, {"DABKE_RENDEZVOUS", "file:here"}}, {"'here'", "absolute"});
  refuses({{"DABKE_SIZE", "1"}, {"DABKE_RENDEZVOUS", "http://127.0.0.1:1"}},
          {"DABKE_JOB_ID and DABKE_JOB_KEY"});
  refuses({{"DABKE_JOB_ID", kId}}, {"DABKE_JOB_ID is set but DABKE_JOB_KEY is not"});
  refuses({{"DABKE_JOB_ID", "xyz"}, {"DABKE_JOB_KEY", kKey}}, {"DABKE_JOB_ID", "32 hexadecimal digits"});
  const std::string bad_key = "secret" + std::string(58, 'b');
  refuses({{"DABKE_JOB_ID", kId}, {"DABKE_JOB_KEY", bad_key}}, {"DABKE_JOB_KEY", "64 hexadecimal digits"});
  CHECK_THAT(error_of({{"DABKE_JOB_ID", kId}, {"DABKE_JOB_KEY", bad_key}}), !Contains("secret"));
}

TEST_CASE("a launcher that does not answer is an error within the start timeout") {
  const auto begun = Clock::now();
  CHECK_THAT(error_of({{"DABKE_SIZE", "2"},
                       {"DABKE_RANK", "1"},
                       {"DABKE_RENDEZVOUS", "http://127.0.0.1:1"},
                       {"DABKE_JOB_ID", kId},
                       {"DABKE_JOB_KEY", kKey}},
                      1),
             Contains("127.0.0.1"));
  CHECK(Clock::now() - begun < kPatience);
}

TEST_CASE("a key file that belongs to another is refused") {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/job-secret";
  const auto variables = rank_variables(0, 1, directory.path());
  REQUIRE(error_of(variables) == "no error");
  if (::chown(path.c_str(), 4711, 4711) != 0) DABKE_SKIP("only root can give a file to another");
  CHECK_THAT(error_of(variables), Contains(path) && Contains("belongs to user 4711"));
}

TEST_CASE("a key file that others may read, or that holds something else is refused") {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/job-secret";
  const auto variables = rank_variables(0, 1, directory.path());
  REQUIRE(error_of(variables) == "no error");
  SECTION("readable") {
    REQUIRE(::chmod(path.c_str(), 0640) == 0);
    CHECK_THAT(error_of(variables), Contains(path) && Contains("other users") && Contains("remove it"));
  }
  SECTION("other content") {
    std::ofstream(path) << "hello";
    CHECK_THAT(error_of(variables), Contains(path) && Contains("job's id and key"));
  }
  SECTION("a link") {
    std::filesystem::rename(path, path + "2");
    std::filesystem::create_symlink(path + "2", path);
    CHECK_THAT(error_of(variables), Contains(path) && Contains("cannot be read"));
  }
}

TEST_CASE("ranks that were started with different sizes all learn both sizes") {
  TemporaryDirectory directory;
  const int sizes[] = {3, 4, 3};
  const auto seen =
      run_ranks(3, [&](Rank rank) { return error_of(rank_variables(rank, sizes[rank], directory.path())); });
  for (const auto& error : seen)
    CHECK_THAT(error, Contains("rank 0 was started with a size of 3, rank 1 with a size of 4"));

  const std::string text = "rank 0 was started with a size of 1, rank 1 with a size of 2";
  const auto after = with_enough_time(
      1,
      [](double seconds) {
        TemporaryDirectory other;
        const int fewer[] = {1, 2};
        return run_ranks(
            2, [&](Rank rank) { return error_of(rank_variables(rank, fewer[rank], other.path()), seconds); });
      },
      [&](const auto& errors) { return errors[1].find(text) != std::string::npos; });
  CHECK(after[0] == "no error");
  CHECK_THAT(after[1], Contains(text));
}

TEST_CASE("static process sets that differ between ranks are found at init, with both ranks and lists") {
  TemporaryDirectory directory;
  const auto start_with = [&](const std::vector<std::string>& process_sets) {
    return run_ranks(3, [&](Rank rank) {
      Config config;
      config.process_sets = process_sets[static_cast<std::size_t>(rank)];
      const auto joined =
          bootstrap::bootstrap(config, environment_of(rank_variables(rank, 3, directory.path())));
      return joined.is_ok() ? Status::ok() : joined.status();
    });
  };
  for (const Status& status : start_with({"0,1;2", "1,0;2", "0,1;2"})) CHECK(status.is_ok());
  const auto [second, shown] = GENERATE(table<std::string, std::string>(
      {{"2;1,0", "2;0,1"}, {"0,1", "0,1"}, {"", ""}, {"nonsense", "nonsense"}, {"0,1;3", "0,1;3"}}));
  for (const Status& status : start_with({"1,0;2", "0,1;2", second})) {
    CHECK(status.code() == Code::mismatch);
    CHECK_THAT(status.message(),
               Contains("rank 0 was started with process sets '0,1;2', rank 2 with '" + shown + "'") &&
                   Contains("DABKE_PROCESS_SETS"));
  }
}

TEST_CASE("ranks that do not come are named, with the epochs they are in") {
  const auto names_others = [](const std::string& error) { return error.find("ranks 2, 3") != error.npos; };
  const auto seen = with_enough_time(
      1,
      [](double seconds) {
        TemporaryDirectory directory;
        return run_ranks(
            2, [&](Rank rank) { return error_of(rank_variables(rank, 4, directory.path()), seconds); });
      },
      [&](const auto& errors) { return std::ranges::all_of(errors, names_others); });
  for (const auto& error : seen) {
    CHECK_THAT(error,
               Contains("ranks 2, 3") && Contains("epoch 1") && Contains("DABKE_START_TIMEOUT_SECONDS"));
  }
  TemporaryDirectory directory;
  REQUIRE(error_of(rank_variables(0, 2, directory.path()), 0.1) != "no error");
  CHECK_THAT(error_of(rank_variables(1, 2, directory.path()), 0.1),
             Contains("rank 0 (last in epoch 1) did not call dabke_init") && Contains("interrupted job"));
}

TEST_CASE("two hundred rounds in one process count the epochs up and leave nothing behind") {
  TemporaryDirectory directory;
  constexpr int kSize = 2;
  std::size_t descriptors = 0, files = 0, threads = 0;
  for (int round = 1; round <= 200; ++round) {
    const auto seen = run_ranks(kSize, [&](Rank rank) -> std::string {
      const auto joined =
          bootstrap::bootstrap({}, environment_of(rank_variables(rank, kSize, directory.path())));
      if (!joined.is_ok()) return joined.status().message();
      ForkGuard guard;
      auto channel = control::LinkChannel::open(joined->world, std::vector<Rank>{1 - rank}, {}, joined->store,
                                                guard, Log());
      if (!channel.is_ok()) return channel.status().message();
      (*channel)->close(deadline_after(60));
      if (const auto left = bootstrap::leave_epoch(*joined); !left.is_ok()) return left.message();
      return std::to_string(joined->world.epoch);
    });
    REQUIRE(seen == std::vector<std::string>(kSize, std::to_string(round)));
    if (round == 1) {
      descriptors = open_descriptors();
      files = directory.files();
      threads = thread_count();
    }
  }
  CHECK(open_descriptors() == descriptors);
  CHECK(directory.files() == files);
  CHECK(threads_fall_to(threads));
}

TEST_CASE("a store that does not answer any more keeps nobody in shutdown") {
  // The kernel accepts connections, but no program answers: dabkerun or its host is stopped.
  const Fd silent = links::tcp_listen(links::SocketAddress::parse("127.0.0.1:0").take()).take();
  const auto address = links::SocketAddress::local_of(silent.get()).take().to_string();
  bootstrap::Bootstrapped joined;
  joined.world.size = 2;
  joined.store = store::with_prefix(store::open_http_store("http://" + address, {}, {}).take(), "1");
  const auto begun = Clock::now();
  std::optional<TimePoint> report_ended;
  {
    // A dump on its way to the launcher ends in the same way.
    const std::jthread reporter([&] {
      (void)joined.store->set("dumps/1/0", "text");
      report_ended = Clock::now();
    });
    while (!links::tcp_accept(silent.get()).take()) std::this_thread::yield();
    const Status left = bootstrap::leave_epoch(joined);
    CHECK_THAT(left.message(), Contains(address) && Contains("no answer in time"));
  }
  CHECK(Clock::now() - begun < kPatience);
  CHECK(*report_ended - begun < kPatience);
}

TEST_CASE("what a crashed epoch left is removed by the next one") {
  TemporaryDirectory directory;
  const auto crashed = bootstrap_all(2, directory.path());
  REQUIRE(crashed[0].store->set("gloo/0", "x").is_ok());
  const auto next = bootstrap_all(2, directory.path());
  CHECK(next[0].world.epoch == 2);
  CHECK_FALSE(crashed[1].store->get("gloo/0", Clock::now()).is_ok());
}
