// Real runtimes, as threads of the test, that go from epoch to epoch.
#include <algorithm>
#include <chrono>
#include <latch>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "ops/registry.h"
#include "runtime/bootstrap/bootstrap.h"
#include "tests/in_process/job.h"
#include "tests/launcher/elastic/served_job.h"
#include "tests/run_ranks.h"

namespace dabke::test {
namespace {

using bootstrap::EpochPlan;
using launcher::WorkerId;

/// One process of an elastic job. Its thread calls everything.
class Member {
 public:
  Member(const ServedJob& job, WorkerId worker, Config config = quiet_config(), Variables more = {})
      : variables_(job.variables_of(worker)), config_(std::move(config)) {
    for (auto& [name, value] : more) variables_[name] = value;
  }
  ~Member() {
    if (rank_) rank_->close();
  }

  /// Leaves its epoch and comes to the next one.
  Status next(std::optional<std::uint64_t> commit = {}) {
    if (rank_) {
      visit_.process_sets = rank_->runtime().process_sets().all();
      rank_->close();
    }
    rank_.reset();
    visit_.commit = commit;
    DABKE_ASSIGN_OR_RETURN(auto met, bootstrap::bootstrap(config_, environment_of(variables_), visit_));
    if (const auto* const left = std::get_if<bootstrap::LeftInOrder>(&met))
      return {Code::shut_down, left->why};
    auto joined = std::move(std::get<bootstrap::Bootstrapped>(met));
    plan_ = *joined.plan;
    knife_ = std::make_shared<DroppableChannel::Knife>();
    core::Runtime::Factories factories{ops::make_backends};
    factories.channel =
        [this, make = factories.channel](
            const BackendContext& context) -> Result<std::unique_ptr<control::ControlChannel>> {
      DABKE_ASSIGN_OR_RETURN(auto made, make(context));
      return std::unique_ptr<control::ControlChannel>(std::make_unique<DroppableChannel>(
          std::move(made), core::topology_of(context.world, context.config)->neighbours(context.world.rank),
          knife_));
    };
    const int number = joined.world.rank;
    DABKE_ASSIGN_OR_RETURN(auto runtime, core::Runtime::open(config_, std::move(joined), factories));
    rank_ = std::make_unique<test::Rank>(number, std::move(runtime));
    return {};
  }
  /// The links end without a goodbye, like those of a killed process.
  void dies() { knife_->cut(); }

  /// The sum of the members' ranks plus one, or an error.
  Result<float> sum() {
    std::vector<float> x{static_cast<float>(rank().rank() + 1)};
    DABKE_RETURN_IF_ERROR(rank().allreduce(x));
    return x[0];
  }
  /// Calls sum() until it fails.
  Status lose() {
    while (true) DABKE_RETURN_IF_ERROR(sum().status());
  }

  test::Rank& rank() { return *rank_; }
  const EpochPlan& plan() const { return plan_; }
  const World& world() { return rank().runtime().world(); }

 private:
  Variables variables_;
  const Config config_;
  bootstrap::Visit visit_;
  EpochPlan plan_;
  std::shared_ptr<DroppableChannel::Knife> knife_;
  std::unique_ptr<test::Rank> rank_;
};

/// A count at which all threads of a test meet.
using Meet = std::latch;

}  // namespace

TEST_CASE("rank 0 is lost, and the others go on in the next epoch") {
  ServedJob job(limits_of(4, 1), {{"a", 4}});
  Meet all_are_in(4), all_are_through(4);
  struct Seen {
    Status lost;
    EpochPlan plan;
    World world;
    float sum = 0;
  };
  const auto seen = run_ranks(4, [&](int worker) {
    Member member(job, worker);
    must(member.next());
    Seen saw;
    must(member.sum());
    all_are_in.arrive_and_wait();
    if (worker == 0) {
      member.dies();
      job.ends(0, "killed by SIGKILL");
      all_are_through.arrive_and_wait();
      return saw;
    }
    saw.lost = member.lose();
    must(member.next(worker == 2 ? 6 : 5));
    saw.plan = member.plan();
    saw.world = member.world();
    saw.sum = must(member.sum());
    all_are_through.arrive_and_wait();
    return saw;
  });
  for (std::size_t worker = 1; worker < 4; ++worker) {
    CAPTURE(worker);
    const Seen& saw = seen[worker];
    CHECK(saw.lost.code() == Code::peer_lost);
    CHECK(saw.sum == 6);
    CHECK(saw.plan == seen[1].plan);
    CHECK(saw.plan.holders() == std::vector{1});
    REQUIRE(saw.plan.lost.size() == 1);
    CHECK(saw.plan.lost[0] == bootstrap::LostMember{0, "a", "killed by SIGKILL"});
    CHECK(saw.world.epoch == 2);
    CHECK(saw.world.size == 3);
    CHECK(saw.world.rank == static_cast<int>(worker) - 1);
    CHECK(saw.world.local_rank == static_cast<int>(worker));  // kept, so it may be the local size
    CHECK(saw.world.local_size == 3);
    CHECK(saw.world.cross_size == 1);
  }
}

TEST_CASE("an announced change is seen by all ranks at the same commit, and the newcomer joins there") {
  ServedJob job(limits_of(2, 1, 3), {{"a", 2}});
  Meet two_are_in(3);
  struct Seen {
    std::uint64_t steps = 0;
    EpochPlan plan;
    std::uint64_t announced_after = 0;
    float sum = 0;
  };
  const auto seen = run_ranks(3, [&](int worker) {
    Member member(job, worker);
    Seen saw;
    if (worker == 2) {
      two_are_in.arrive_and_wait();
      job.use({{"a", 3}});
      must(member.next());
    } else {
      must(member.next());
      two_are_in.arrive_and_wait();
      // The ranks wait for their operations in another order, and leave one open over each commit.
      std::vector<float> a{1}, b{2}, open{3};
      Pending is_open = member.rank().allreduce_async(open, {.name = "open"});
      while (member.rank().runtime().announced_changes() == 0) {
        const Pending first = member.rank().allreduce_async(a, {.name = "a"});
        const Pending second = member.rank().allreduce_async(b, {.name = "b"});
        for (const Pending* one : worker == 0 ? std::vector{&first, &second} : std::vector{&second, &first}) {
          must(one->wait());
          member.rank().runtime().received(one->operation());
        }
        must(is_open.wait());
        member.rank().runtime().received(is_open.operation());
        is_open = member.rank().allreduce_async(open, {.name = "open"});
        ++saw.steps;
      }
      must(is_open.wait());
      must(member.next(saw.steps));
    }
    saw.plan = member.plan();
    saw.sum = must(member.sum());
    saw.announced_after = member.rank().runtime().announced_changes();
    return saw;
  });
  CHECK(seen[0].steps == seen[1].steps);
  for (const Seen& saw : seen) {
    CHECK(saw.plan == seen[0].plan);
    CHECK(saw.sum == 6);
    CHECK(saw.announced_after == 0);
  }
  const EpochPlan& plan = seen[0].plan;
  CHECK(plan.epoch == 2);
  CHECK(plan.change == 1);
  CHECK(plan.lost.empty());
  CHECK(plan.newest_commit() == seen[0].steps);
  CHECK(plan.holders() == std::vector{0, 1});
  REQUIRE(plan.members.size() == 3);
  CHECK(plan.members[2].former_rank == -1);
}

TEST_CASE("a process that was written off is refused when it comes again") {
  ServedJob job(limits_of(3, 1), {{"a", 3}});
  Meet all_are_in(3), others_go_on(3);
  const auto seen = run_ranks(3, [&](int worker) -> Status {
    Member member(job, worker);
    must(member.next());
    must(member.sum());
    all_are_in.arrive_and_wait();
    if (worker == 1) {  // it is paused: the others lose it, and it cannot find that out
      member.dies();
      job.ends(1, "its host is silent");
      others_go_on.arrive_and_wait();
      return member.next(1);
    }
    (void)member.lose();
    must(member.next(1));
    others_go_on.arrive_and_wait();
    must(member.sum());
    return {};
  });
  CHECK(seen[0].is_ok());
  CHECK(seen[2].is_ok());
  CHECK(seen[1].code() == Code::aborted);
  CHECK_THAT(seen[1].message(), Catch::Contains("written off"));
}

TEST_CASE("members that were started with other process sets get the same error on all ranks") {
  ServedJob job(limits_of(3, 1), {{"a", 3}});
  const auto seen = run_ranks(3, [&](int worker) {
    Config config = quiet_config();
    config.process_sets = worker == 2 ? "0,2" : "1,0";
    return Member(job, worker, config).next();
  });
  for (const Status& status : seen) {
    CHECK(status.code() == Code::mismatch);
    CHECK(status.message() == seen[0].message());
  }
  CHECK_THAT(seen[0].message(),
             Catch::Contains("rank 0 was started with process sets '0,1', rank 2 with '0,2'"));
}

TEST_CASE(
    "process sets go on under their ids with the processes that they had, and say which rank they lost") {
  ServedJob job(limits_of(4, 1), {{"a", 4}});
  Meet all_are_in(4), all_are_through(4);
  struct Seen {
    ProcessSetId kept = -1, lost = -1, later = -1;
    std::vector<int> ranks;
    std::vector<ProcessSetId> ids;
    float sum = 0;
    Status of_lost, of_lost_later;
  };
  const auto seen = run_ranks(4, [&](int worker) {
    Member member(job, worker);
    must(member.next());
    Seen saw;
    saw.kept = member.rank().add_process_set({2, 3});
    saw.lost = member.rank().add_process_set({0, 1, 2});
    all_are_in.arrive_and_wait();
    if (worker == 0) {
      member.dies();
      job.ends(0, "killed by SIGKILL");
    } else {
      (void)member.lose();
      must(member.next(1));
      test::Rank& rank = member.rank();
      saw.ranks = rank.runtime().process_sets().find(saw.kept)->ranks;
      std::vector<float> x{static_cast<float>(worker)};
      if (worker >= 2) must(rank.allreduce(x, ReduceOp::sum, saw.kept));
      saw.sum = x[0];
      saw.of_lost = rank.allreduce(x, ReduceOp::sum, saw.lost);
      saw.later = rank.add_process_set({0, 1});
      must(rank.remove_process_set(saw.kept));
      must(rank.barrier());
      must(member.next(2));
      saw.of_lost_later = member.rank().allreduce(x, ReduceOp::sum, saw.lost);
      saw.ids = member.rank().runtime().process_sets().ids();
    }
    all_are_through.arrive_and_wait();
    return saw;
  });
  for (const std::size_t worker : {1U, 2U, 3U}) {
    const Seen& saw = seen[worker];
    CHECK(saw.ranks == std::vector{1, 2});
    CHECK(saw.sum == (worker == 1 ? 1.0F : 5.0F));
    CHECK(saw.of_lost.code() == Code::unknown_process_set);
    CHECK_THAT(saw.of_lost.message(),
               Catch::Contains("process set 2 had rank 0 on a, which was lost before epoch 2"));
    CHECK_THAT(saw.of_lost_later.message(),
               Catch::Contains("had rank 0 on a, which was lost before epoch 2"));
    CHECK(saw.later > saw.lost);  // an id is never used again
    CHECK(saw.ids == std::vector<ProcessSetId>{0, saw.later});
  }
}

TEST_CASE("MPI is refused by name in an elastic job") {
  ServedJob job(limits_of(1, 1), {{"a", 1}});
  Config config = quiet_config();
  SECTION("as the controller") {
    config.controller = Controller::mpi;
    const Status refused = Member(job, 0, config).next();
    CHECK(refused.code() == Code::unsupported);
    CHECK_THAT(refused.message(), Catch::Contains("DABKE_CONTROLLER=mpi") && Catch::Contains("--min-np"));
  }
  SECTION("for data") {
    config.cpu_operations = "mpi";
    CHECK_THAT(Member(job, 0, config).next().message(), Catch::Contains("DABKE_CPU_OPERATIONS=mpi"));
  }
  SECTION("as a communicator") {
    const int comm = 0;
    const auto refused = bootstrap::bootstrap(config, environment_of(job.variables_of(0)), &comm);
    CHECK(refused.status().code() == Code::unsupported);
    CHECK_THAT(refused.status().message(), Catch::Contains("mpi_comm"));
  }
}

TEST_CASE("variables that make no elastic job are refused by name") {
  ServedJob job(limits_of(1, 1), {{"a", 1}});
  const auto error_with = [&](const char* name, const std::string& value) {
    return Member(job, 0, quiet_config(), {{name, value}}).next().message();
  };
  CHECK_THAT(error_with("DABKE_ELASTIC_WORKER", "x"), Catch::Contains("DABKE_ELASTIC_WORKER is 'x'"));
  CHECK_THAT(error_with("DABKE_ELASTIC_WORKER", "-1"), Catch::Contains("DABKE_ELASTIC_WORKER is '-1'"));
  CHECK_THAT(error_with("DABKE_RENDEZVOUS", ""), Catch::Contains("not DABKE_RENDEZVOUS"));
  CHECK_THAT(error_with("DABKE_JOB_KEY", ""),
             Catch::Contains("DABKE_JOB_ID is set but DABKE_JOB_KEY is not"));
}

}  // namespace dabke::test
