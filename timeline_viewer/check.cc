#include "timeline_viewer/check.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/base/text/call_name.h"
#include "runtime/timeline/joining/record_joiner.h"

namespace dabke::viewer {
namespace {

class Checker final : public timeline::JoinSink {
 public:
  Checker(const timeline::JobFiles& files, const timeline::RecordJoiner& joiner, std::size_t most)
      : files_(files), joiner_(joiner), most_(most) {}

  void batch(const timeline::JoinedBatch& batch) override {
    const timeline::RankPart& first = batch.parts.front();
    for (const timeline::RankPart& part : batch.parts) {
      if (part.tensors.size() != first.tensors.size() ||
          part.tensors.front().kind != first.tensors.front().kind) {
        note(differing_, fmt::format("batch {}.{}: rank {} recorded {} {}, rank {} recorded {} {}",
                                     batch.order, batch.number, rank_of(first.index), first.tensors.size(),
                                     name_of(first.tensors.front().kind), rank_of(part.index),
                                     part.tensors.size(), name_of(part.tensors.front().kind)));
      }
      for (const timeline::JoinedTensor& tensor : part.tensors)
        check_end(part.index, tensor, "was ordered and");
    }
  }
  void lonely_tensor(std::size_t rank, const timeline::JoinedTensor& tensor) override {
    // When a timeline stops and the job goes on, some tensors have no order yet.
    const bool is_closed = files_.ranks()[rank].missing.empty();
    if (!is_closed || tensor.end_ns != timeline::kNotKnown)
      check_end(rank, tensor, "was submitted, never ordered, and");
  }
  void called(std::size_t, const timeline::Record&, std::int64_t) override {}
  void span(std::size_t, std::uint32_t, std::uint32_t, std::int64_t, std::int64_t) override {}
  void wait(std::size_t, std::uint32_t, std::int64_t, std::int64_t) override {}
  void step(std::size_t, std::uint32_t, std::int64_t, std::uint64_t) override {}
  void cycle(std::size_t, std::int64_t) override {}
  void lost(std::size_t, std::int64_t, std::uint64_t) override {}
  void load(std::size_t, std::int64_t, const timeline::Load&) override {}

  std::vector<std::string> faults() const {
    std::vector<std::string> all = files_.notes();
    for (const Kind* kind : {&differing_, &unended_, &failed_}) {
      all.insert(all.end(), kind->texts.begin(), kind->texts.end());
      if (kind->count > kind->texts.size())
        all.push_back(fmt::format("... and {} more like these", kind->count - kind->texts.size()));
    }
    return all;
  }

 private:
  struct Kind {
    std::vector<std::string> texts;
    std::size_t count = 0;
  };

  int rank_of(std::size_t index) const { return files_.ranks()[index].origin.rank; }
  void note(Kind& kind, std::string text) {
    if (kind.count++ < most_) kind.texts.push_back(std::move(text));
  }
  /// True for a tensor that had not ended well when the ranks of an elastic job changed.
  bool is_part_of_change(std::size_t rank, std::int64_t end_ns) const {
    const bool is_in_last_epoch = files_.epoch_of(rank) + 1 == files_.epochs().size();
    if (is_in_last_epoch) return false;
    return end_ns == timeline::kNotKnown ||
           std::ranges::any_of(files_.changes(), [&](const timeline::EpochChange& change) {
             return end_ns >= change.when.begin_ns && end_ns <= change.when.end_ns;
           });
  }
  void check_end(std::size_t rank, const timeline::JoinedTensor& tensor, std::string_view what) {
    const std::string_view name = joiner_.name(rank, timeline::NameKind::tensor, tensor.name);
    if (is_part_of_change(rank, tensor.end_ns)) return;
    if (tensor.end_ns == timeline::kNotKnown) {
      note(unended_, fmt::format("rank {}: {} {} has not finished", rank_of(rank),
                                 name_of_call(tensor.kind, name), what));
    } else if (tensor.error != 0) {
      note(failed_, fmt::format("rank {}: {} failed: {}", rank_of(rank), name_of_call(tensor.kind, name),
                                joiner_.name(rank, timeline::NameKind::error, tensor.error)));
    }
  }

  const timeline::JobFiles& files_;
  const timeline::RecordJoiner& joiner_;
  const std::size_t most_;
  Kind differing_, unended_, failed_;
};

}  // namespace

Result<std::vector<std::string>> faults_of(const timeline::JobFiles& files,
                                           const timeline::OnProgress& on_progress, std::size_t most) {
  timeline::RecordJoiner joiner(files);
  Checker checker(files, joiner, most);
  DABKE_RETURN_IF_ERROR(joiner.run(checker, on_progress));
  return checker.faults();
}

}  // namespace dabke::viewer
