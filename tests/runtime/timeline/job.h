// Records of a job that a test writes itself, so that every time in the trace is known.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/timeline/merge/merge.h"
#include "tests/runtime/timeline/trace.h"
#include "tests/temporary_directory.h"

namespace dabke::test {

inline constexpr std::int64_t kBegin =
    1'000'000'000'000;  // on the host's clock; times below are in microseconds after it

/// The records of one rank, as the test puts them.
class Writer {
 public:
  Writer(const std::string& base, Rank rank, int size, std::byte job = std::byte{7}, std::uint64_t epoch = 1)
      : timeline_(must_open(
            {.path = base,
             .mark_cycles = true,
             .format = TimelineFormat::records,
             .origin = {.job_id = {job}, .epoch = epoch, .rank = rank, .size = size, .host = "here"}})) {}
  /// A rank in an epoch of an elastic job.
  Writer(const std::string& base, Rank rank, std::uint64_t epoch, const timeline::EpochRoster& roster)
      : timeline_(must_open({.path = base,
                             .format = TimelineFormat::records,
                             .origin = {.job_id = {std::byte{7}},
                                        .epoch = epoch,
                                        .rank = rank,
                                        .size = static_cast<int>(roster.members.size()),
                                        .host = roster.members[static_cast<std::size_t>(rank)].host,
                                        .roster = roster}})) {}
  ~Writer() { static_cast<void>(timeline_->close().is_ok()); }

  timeline::Timeline& timeline() { return *timeline_; }
  void put(std::int64_t at_us, timeline::Record record) {
    record.time_ns = kBegin + at_us * 1000;
    timeline_->put(record);
  }
  void submit(std::int64_t at_us, const std::string& name, std::uint64_t bytes = 400) {
    put(at_us, {.bytes = bytes, .name = timeline_->tensor(name), .what = timeline::Record::What::submit});
  }
  /// Writes a batch with these tensors, from its order to its end. It waits for 10 us, and then runs.
  void run(std::int64_t order_us, std::int64_t done_us, std::uint64_t order,
           const std::vector<std::string>& names, std::uint64_t bytes = 400) {
    timeline::Record about{.order = order, .batch = order, .bytes = bytes, .dtype = DType::f32};
    for (const std::string& name : names) {
      about.name = timeline_->tensor(name);
      about.what = timeline::Record::What::order;
      put(order_us, about);
      ++about.order;
    }
    step(order_us, order_us + 10, order, timeline::Record::What::queue);
    timeline::Record run{.order = order,
                         .batch = order,
                         .name = timeline_->text("SHM_ALLREDUCE"),
                         .what = timeline::Record::What::run};
    run.backend = timeline_->text("shm");
    put(order_us + 10, run);
    run.flags = timeline::Record::kEnd;
    run.algorithm = timeline_->text("direct");
    put(done_us, run);
    about.order = order;
    about.backend = run.backend;
    for (const std::string& name : names) {
      about.name = timeline_->tensor(name);
      about.time_ns = kBegin + done_us * 1000;
      timeline_->done(about, Shape{100});
      ++about.order;
    }
  }
  /// Submits a tensor that fails without an order.
  void fail(std::int64_t submit_us, std::int64_t error_us, const std::string& name) {
    submit(submit_us, name);
    timeline_->error({.time_ns = kBegin + error_us * 1000, .name = timeline_->tensor(name)},
                     {Code::peer_lost, "rank 0 was lost"});
  }
  void leave(std::int64_t at_us) { put(at_us, {.what = timeline::Record::What::leave}); }
  void mark(std::int64_t at_us, std::uint64_t step) {
    put(at_us, {.bytes = step, .what = timeline::Record::What::step});
  }
  void step(std::int64_t begin_us, std::int64_t end_us, std::uint64_t order, timeline::Record::What what) {
    put(begin_us, {.order = order, .batch = order, .what = what});
    put(end_us, {.order = order, .batch = order, .what = what, .flags = timeline::Record::kEnd});
  }

 private:
  std::unique_ptr<timeline::Timeline> timeline_;
};

/// Two ranks. The second one submits `b` 300 us late. Both tensors are in one batch.
inline void write_job(const std::string& base) {
  for (const Rank rank : {0, 1}) {
    Writer writer(base, rank, 2);
    writer.submit(0, "a");
    writer.submit(rank == 1 ? 320 : 20, "b");
    writer.run(350, 400, 5, {"a", "b"});
  }
}

inline Json merged(const std::string& base, const std::string& output) {
  const auto files = timeline::JobFiles::find(base);
  if (!files) throw std::runtime_error(files.status().message());
  if (const Status status = timeline::merge_records(*files, output); !status.is_ok())
    throw std::runtime_error(status.message());
  return read_trace(output);
}

}  // namespace dabke::test
