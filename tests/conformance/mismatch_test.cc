// When ranks disagree about a tensor, every rank gets the same error, and no other operation is harmed.
#include <functional>

#include <catch2/catch.hpp>

#include "tests/in_process/job.h"

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

Pending submit(Rank& self, std::vector<float>& data, CollectiveKind kind, Shape shape, const Call& call) {
  TensorView view = view_of(data);
  view.shape = std::move(shape);
  return self.start(kind, {{view}}, call);
}

/// The call of ranks 0 and 1, and the different call of rank 2.
struct Disagreement {
  std::string what;
  std::function<Pending(Rank&, std::vector<float>&)> most;
  std::function<Pending(Rank&, std::vector<float>&)> odd;
  std::string most_signature;
  std::string odd_signature;
};

/// Adds the device to a signature, which names it unless the tensors are on the host.
std::string as_seen(std::string signature, const Setup& setup) {
  const std::size_t shape = signature.rfind(']');
  if (shape != std::string::npos) signature.insert(shape + 1, setup.where());
  return signature;
}

std::vector<Disagreement> disagreements() {
  const auto tensor = [](CollectiveKind kind, Shape shape, Call call) {
    call.name = "grad";
    return [=](Rank& self, std::vector<float>& data) { return submit(self, data, kind, shape, call); };
  };
  const auto group = [](int tensors) {
    return [=](Rank& self, std::vector<float>& data) {
      std::vector<Argument> arguments;
      for (int i = 0; i < tensors; ++i) {
        TensorView view = view_of(data);
        view.shape = Shape{2};
        view.data = data.data() + 2 * i;
        arguments.push_back({view, {}, i == 0 ? "grad" : "grad." + std::to_string(i)});
      }
      return self.start(CollectiveKind::allreduce, std::move(arguments), {.name = "grad"});
    };
  };
  const auto of_ints = [](Rank& self, std::vector<float>& data) {
    TensorView view = view_of(data);
    view.dtype = DType::i32;
    return self.start(CollectiveKind::allreduce, {{view}}, {.name = "grad"});
  };
  const auto sum = tensor(CollectiveKind::allreduce, {6}, {});
  const std::string text = "allreduce (sum) of float32 [6]";
  return {
      {"shape", sum, tensor(CollectiveKind::allreduce, {2, 3}, {}), text,
       "allreduce (sum) of float32 [2, 3]"},
      {"dtype", sum, of_ints, text, "allreduce (sum) of int32 [6]"},
      {"operation", sum, tensor(CollectiveKind::allgather, {6}, {}), text, "allgather of float32 [6]"},
      {"reduce operation", sum, tensor(CollectiveKind::allreduce, {6}, {.op = ReduceOp::max}), text,
       "allreduce (max) of float32 [6]"},
      {"scale factor", sum, tensor(CollectiveKind::allreduce, {6}, {.prescale = 0.5}), text,
       "allreduce (sum) of float32 [6], prescale 0.5"},
      {"scale factor", sum, tensor(CollectiveKind::allreduce, {6}, {.postscale = 3}), text,
       "allreduce (sum) of float32 [6], postscale 3"},
      {"root rank", tensor(CollectiveKind::broadcast, {6}, {.root = 0}),
       tensor(CollectiveKind::broadcast, {6}, {.root = 1}), "broadcast from rank 0 of float32 [6]",
       "broadcast from rank 1 of float32 [6]"},
      {"group size", group(3), group(2), "allreduce (sum), group of 3", "allreduce (sum), group of 2"},
      {"shape", tensor(CollectiveKind::allgather, {2, 3}, {}), tensor(CollectiveKind::allgather, {3, 2}, {}),
       "allgather of float32 [2, 3]", "allgather of float32 [3, 2]"},
  };
}

}  // namespace

TEST_CASE(
    "a mismatch gives every rank an error with tensor, both signatures and ranks, and the next collective "
    "works") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  Job job(backend, 3);
  for (const Disagreement& one : disagreements()) {
    CAPTURE(backend, one.what, one.odd_signature);
    struct Seen {
      Status status;
      std::vector<float> next;
    };
    const auto seen = job.run([&](Rank& self) {
      std::vector<float> data(6, 1.0f);
      Seen out;
      out.status = (self.rank() == 2 ? one.odd : one.most)(self, data).wait();
      out.next.assign(3, 2.0f);
      must(self.allreduce(out.next, {.name = "grad"}));
      return out;
    });
    for (const Seen& of_rank : seen) {
      CHECK(of_rank.status.code() == Code::mismatch);
      CHECK_THAT(of_rank.status.message(), StartsWith("Mismatched " + one.what + " for 'grad'"));
      CHECK_THAT(of_rank.status.message(),
                 Contains("ranks 0, 1 submitted " + as_seen(one.most_signature, backend)));
      CHECK_THAT(of_rank.status.message(), Contains("rank 2 on " + backend.host(2, 3) + " submitted " +
                                                    as_seen(one.odd_signature, backend)));
      CHECK(of_rank.next == std::vector<float>(3, 6.0f));
    }
  }
}

TEST_CASE("one name submitted to different process sets is a mismatch that names both sets") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  struct Seen {
    Status status;
    std::vector<float> next;
  };
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    const auto set = self.add_process_set({0, 2});
    std::vector<float> data(4, 1.0f);
    Seen out;
    out.status = self.allreduce(data, {.name = "grad", .set = self.rank() == 2 ? set : kWorldSet});
    out.next.assign(3, 2.0f);
    must(self.allreduce(out.next, {.name = "grad"}));
    return out;
  });
  for (const Seen& one : seen) {
    CHECK(one.status.code() == Code::mismatch);
    CHECK_THAT(one.status.message(), StartsWith("Mismatched process set for 'grad'"));
    CHECK_THAT(one.status.message(), Contains("ranks 0, 1 submitted"));
    CHECK_THAT(one.status.message(), Contains("in process set 0 (ranks 0-2)"));
    CHECK_THAT(one.status.message(), Contains("rank 2 on " + backend.host(2, 3) + " submitted"));
    CHECK_THAT(one.status.message(), Contains("in process set 1 (ranks 0, 2)"));
    CHECK(one.next == std::vector<float>(3, 6.0f));
  }
}

TEST_CASE("two sets may wait for each other under one name for a while without that being a mismatch") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    const auto alone = self.add_process_set({1});
    std::vector<float> a(2, 1.0f);
    std::vector<float> b(2, 5.0f);
    std::vector<Pending> pending;
    if (self.rank() == 1) pending.push_back(self.allreduce_async(b, {.name = "x", .set = alone}));
    pending.push_back(self.allreduce_async(a, {.name = "x"}));
    for (const Pending& one : pending) must(one.wait());
    return std::pair(a, b);
  });
  CHECK(seen[0].first == std::vector<float>(2, 2.0f));
  CHECK(seen[1].first == std::vector<float>(2, 2.0f));
  CHECK(seen[1].second == std::vector<float>(2, 5.0f));
}

TEST_CASE("ranks that make different process sets all get an error, and the next set can be made") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    const auto differing = self.try_add_process_set(self.rank() == 0 ? std::vector{0, 1} : std::vector{1, 2});
    const auto first = self.add_process_set({0, 1});
    const auto again = self.try_add_process_set({0, 1});
    must(self.remove_process_set(first));
    const auto second = self.add_process_set({0, 1});
    return std::tuple(differing.status(), again.status(), first, second);
  });
  for (const auto& [differing, again, first, second] : seen) {
    CHECK(differing.code() == Code::mismatch);
    CHECK_THAT(differing.message(), StartsWith("Mismatched process set"));
    CHECK(again.code() == Code::invalid_argument);
    CHECK_THAT(again.message(), Contains("exists already"));
    CHECK(second > first);
  }
}

TEST_CASE("one bad member fails all of its group and nothing else") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  struct Seen {
    std::vector<Status> members;
    Status other;
  };
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    std::vector<std::vector<float>> data(3, std::vector<float>(4));
    if (self.rank() == 1) data[1].resize(5);
    std::vector<Pending> members;
    for (std::size_t i = 0; i < data.size(); ++i) {
      members.push_back(self.allreduce_async(
          data[i], {.name = "member " + std::to_string(i), .group = "g", .group_size = 3}));
    }
    std::vector<float> x(2);
    Seen out;
    out.other = self.allreduce(x, {.name = "other"});
    for (const Pending& member : members) out.members.push_back(member.wait());
    return out;
  });
  for (const Seen& one : seen) {
    CHECK(one.other.is_ok());
    for (const Status& status : one.members) {
      CHECK(status.code() == Code::mismatch);
      CHECK_THAT(status.message(), StartsWith("Mismatched shape for group 'g'"));
    }
  }
}

}  // namespace dabke::test
