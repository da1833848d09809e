#include "runtime/timeline/joining/record_joiner.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace dabke::timeline {

std::uint64_t RankPart::bytes() const {
  std::uint64_t sum = 0;
  for (const JoinedTensor& tensor : tensors) sum += tensor.bytes;
  return sum;
}

std::int64_t RankPart::ready_ns() const {
  std::int64_t last = kNotKnown;
  for (const JoinedTensor& tensor : tensors) {
    if (tensor.submit_ns == kNotKnown) return kNotKnown;
    last = std::max(last, tensor.submit_ns);
  }
  return last;
}

std::int64_t RankPart::begin_ns() const {
  std::int64_t begin = tensors.front().order_ns;
  for (const JoinedStep& step : steps) {
    if (Record::is_before_work(step.what)) begin = std::max(begin, step.end_ns);
  }
  return begin;
}

std::int64_t RankPart::end_ns() const {
  std::int64_t end = begin_ns();
  for (const JoinedStep& step : steps) end = std::max({end, step.begin_ns, step.end_ns});
  for (const JoinedTensor& tensor : tensors) end = std::max(end, tensor.end_ns);
  return end;
}

const JoinedStep* RankPart::main_run() const {
  const JoinedStep* longest = nullptr;
  for (const JoinedStep& step : steps) {
    if (step.what != Record::What::run || step.end_ns == kNotKnown) continue;
    if (longest == nullptr || step.end_ns - step.begin_ns > longest->end_ns - longest->begin_ns)
      longest = &step;
  }
  return longest;
}

const RankPart* JoinedBatch::last_ready(std::int64_t* before_ns) const {
  const RankPart* last = nullptr;
  std::int64_t last_ns = kNotKnown, second_ns = kNotKnown;
  for (const RankPart& part : parts) {
    const std::int64_t ready = part.ready_ns();
    if (ready == kNotKnown) return nullptr;
    if (last == nullptr || ready > last_ns) {
      second_ns = std::exchange(last_ns, ready);
      last = &part;
    } else {
      second_ns = std::max(second_ns, ready);
    }
  }
  if (parts.size() < 2) return nullptr;
  if (before_ns != nullptr) *before_ns = second_ns;
  return last;
}

Status RecordJoiner::run(JoinSink& sink, const OnProgress& on_progress) {
  sink_ = &sink;
  on_progress_ = on_progress;
  using Next = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  has_ended_.assign(files_.ranks().size(), false);
  ended_.assign(files_.epochs().size(), 0);
  readers_.resize(files_.ranks().size());
  for (std::size_t rank = 0; rank < readers_.size(); ++rank) {
    const RankFile& file = files_.ranks()[rank];
    if (file.records == 0) {
      end_rank(rank);
    } else {
      next.emplace(at_of(rank, file.first_ns), rank);
    }
  }
  while (!next.empty()) {
    const std::size_t rank = next.top().second;
    next.pop();
    Reader& reader = readers_[rank];
    if (reader.file) {
      const Record record = reader.block[reader.next++];
      reader.last_ns = std::max(reader.last_ns, reader.at_ns);
      take(rank, record, reader.at_ns);
    }
    DABKE_RETURN_IF_ERROR(open(rank));
    DABKE_ASSIGN_OR_RETURN(const bool is_more, fetch(rank));
    if (is_more) {
      next.emplace(reader.at_ns, rank);
    } else {
      end_rank(rank);
    }
  }
  while (!open_.empty()) hand_over(open_.begin());
  return {};
}

Status RecordJoiner::open(std::size_t rank) {
  if (readers_[rank].file) return {};
  DABKE_ASSIGN_OR_RETURN(RecordFile file, RecordFile::open(files_.ranks()[rank].path));
  readers_[rank].file = std::move(file);
  return {};
}

/// A time of a rank by the one clock.
std::int64_t RecordJoiner::at_of(std::size_t rank, std::int64_t time_ns) const {
  return std::max<std::int64_t>(0, files_.clocks()[rank].at(time_ns) - files_.begin_ns());
}

Result<bool> RecordJoiner::fetch(std::size_t rank) {
  Reader& reader = readers_[rank];
  while (reader.next == reader.block.size()) {
    DABKE_RETURN_IF_ERROR(report_progress(on_progress_, reader.block.size()));
    reader.next = 0;
    DABKE_ASSIGN_OR_RETURN(const bool is_more, reader.file->next(reader.block));
    if (!is_more) return false;
  }
  reader.at_ns = at_of(rank, reader.block[reader.next].time_ns);
  return true;
}

std::string_view RecordJoiner::name(std::size_t rank, NameKind kind, std::uint32_t number) const {
  return number == 0 ? std::string_view() : readers_[rank].file->name(kind, number);
}

void RecordJoiner::take(std::size_t rank, const Record& record, std::int64_t at_ns) {
  switch (record.what) {
    case Record::What::submit: return take_submit(rank, record, at_ns);
    case Record::What::order: return take_order(rank, record, at_ns);
    case Record::What::done:
    case Record::What::error: return take_end(rank, record, at_ns);
    case Record::What::queue:
    case Record::What::wait_for_data:
    case Record::What::allocate:
    case Record::What::pack:
    case Record::What::run:
    case Record::What::unpack: return take_step(rank, record, at_ns);
    case Record::What::span:
    case Record::What::wait: return take_span(rank, record, at_ns);
    case Record::What::step: return sink_->step(rank, record.thread, at_ns, record.bytes);
    case Record::What::cycle: return sink_->cycle(rank, at_ns);
    case Record::What::lost: return sink_->lost(rank, at_ns, record.bytes);
    case Record::What::ready:  // the submits of each rank show more
    case Record::What::leave:  // see JobFiles::changes()
    case Record::What::clock: return;
  }
}

void RecordJoiner::take_submit(std::size_t rank, const Record& record, std::int64_t at_ns) {
  if (!moves_data(record.kind)) return sink_->called(rank, record, at_ns);
  readers_[rank].submits[{record.process_set, record.name}].push_back(
      {at_ns, record.bytes, record.thread, record.kind, record.dtype});
}

RecordJoiner::Submit* RecordJoiner::first_submit(Reader& reader, const Record& record) {
  const auto found = reader.submits.find({record.process_set, record.name});
  return found == reader.submits.end() ? nullptr : &found->second.front();
}

void RecordJoiner::drop_first_submit(Reader& reader, const Record& record) {
  const auto found = reader.submits.find({record.process_set, record.name});
  found->second.pop_front();
  if (found->second.empty()) reader.submits.erase(found);
}

void RecordJoiner::take_order(std::size_t rank, const Record& record, std::int64_t at_ns) {
  Reader& reader = readers_[rank];
  JoinedTensor tensor{.order = record.order,
                      .name = record.name,
                      .order_ns = at_ns,
                      .bytes = record.bytes,
                      .set = record.process_set,
                      .kind = record.kind,
                      .dtype = record.dtype};
  if (const Submit* const submit = first_submit(reader, record)) {
    tensor.submit_ns = submit->at_ns;
    tensor.thread = submit->thread;
    drop_first_submit(reader, record);
  }
  const BatchKey key{files_.epoch_of(rank), record.batch, record.number};
  JoinedBatch& batch = open_[key];
  batch.epoch = files_.epochs()[key.epoch].number;
  batch.order = key.order;
  batch.number = key.number;
  batch.set = record.process_set;
  batch.kind = record.kind;
  RankPart& part = add_part(batch, rank);
  reader.tensors[{record.order, record.name}] = {key, part.tensors.size()};
  part.tensors.push_back(tensor);
  ++part.left;
  reader.load.bytes += tensor.bytes;
  sink_->load(rank, at_ns, reader.load);
  if (open_.size() > kMostOpen) hand_over(open_.begin());
}

RankPart* RecordJoiner::part_of(std::size_t rank, const BatchKey& key) {
  const auto batch = open_.find(key);
  if (batch == open_.end()) return nullptr;
  const auto part = std::ranges::lower_bound(batch->second.parts, rank, {}, &RankPart::index);
  return part == batch->second.parts.end() || part->index != rank ? nullptr : &*part;
}

RankPart& RecordJoiner::add_part(JoinedBatch& batch, std::size_t rank) {
  const auto part = std::ranges::lower_bound(batch.parts, rank, {}, &RankPart::index);
  if (part != batch.parts.end() && part->index == rank) return *part;
  return *batch.parts.insert(part, RankPart{.index = rank});
}

void RecordJoiner::take_end(std::size_t rank, const Record& record, std::int64_t at_ns) {
  Reader& reader = readers_[rank];
  const auto known = reader.tensors.find({record.order, record.name});
  if (known == reader.tensors.end()) return take_early_error(rank, record, at_ns);
  const TensorPosition place = known->second;
  reader.tensors.erase(known);
  RankPart* const part = part_of(rank, place.batch);
  if (part == nullptr || place.index >= part->tensors.size()) return;
  JoinedTensor& tensor = part->tensors[place.index];
  if (tensor.order != record.order || tensor.name != record.name || tensor.end_ns != kNotKnown) return;
  tensor.end_ns = at_ns;
  reader.load.bytes -= tensor.bytes;
  sink_->load(rank, at_ns, reader.load);
  if (record.what == Record::What::done) {
    tensor.shape = record.number;
  } else {
    tensor.error = record.number;
    tensor.code = static_cast<Code>(record.bytes);
  }
  part->backend = record.backend;
  const auto batch = open_.find(place.batch);
  if (--part->left == 0 && is_complete(batch->first, batch->second)) hand_over(batch);
}

/// Takes an error of a tensor that was refused before it had an order. Every other end without an order
/// belongs to a tensor that was ordered before the timeline began.
void RecordJoiner::take_early_error(std::size_t rank, const Record& record, std::int64_t at_ns) {
  Reader& reader = readers_[rank];
  const Submit* const submit = record.order == 0 ? first_submit(reader, record) : nullptr;
  if (record.what != Record::What::error || submit == nullptr) return;
  JoinedTensor tensor{.name = record.name,
                      .submit_ns = submit->at_ns,
                      .end_ns = at_ns,
                      .bytes = submit->bytes,
                      .thread = submit->thread,
                      .set = record.process_set,
                      .kind = submit->kind,
                      .dtype = submit->dtype,
                      .error = record.number,
                      .code = static_cast<Code>(record.bytes)};
  drop_first_submit(reader, record);
  sink_->lonely_tensor(rank, tensor);
}

void RecordJoiner::take_step(std::size_t rank, const Record& record, std::int64_t at_ns) {
  RankPart* const part = part_of(rank, {files_.epoch_of(rank), record.batch, record.number});
  if (part == nullptr) return;
  if (record.what == Record::What::queue) count_queued(rank, record, at_ns);
  if (!record.is_end()) {
    part->steps.push_back({record.what, at_ns, kNotKnown, record.name, record.backend, record.algorithm});
    return;
  }
  const auto open = std::find_if(part->steps.rbegin(), part->steps.rend(), [&](const JoinedStep& one) {
    return one.what == record.what && one.end_ns == kNotKnown;
  });
  if (open == part->steps.rend()) return;
  open->end_ns = std::max(open->begin_ns, at_ns);
  if (record.algorithm != 0) open->algorithm = record.algorithm;
}

void RecordJoiner::count_queued(std::size_t rank, const Record& record, std::int64_t at_ns) {
  Load& load = readers_[rank].load;
  if (record.is_end()) {
    load.queued -= std::min<std::uint64_t>(load.queued, 1);
  } else {
    ++load.queued;
  }
  sink_->load(rank, at_ns, load);
}

/// An end ends the innermost span or wait of its kind. Spans and waits inside that one are ended first, since
/// their own ends were lost. Threads beyond the limit of names share a number, so their times may decrease.
void RecordJoiner::take_span(std::size_t rank, const Record& record, std::int64_t at_ns) {
  ThreadRow& row = readers_[rank].threads[record.thread];
  row.last_ns = at_ns = std::max(row.last_ns, at_ns);
  const bool is_wait = record.what == Record::What::wait;
  if (!record.is_end()) {
    // The end of an earlier wait was lost.
    if (is_wait) std::erase_if(row.open, [](const OpenSpan& one) { return one.is_wait; });
    row.open.push_back({record.name, at_ns, is_wait});
    return;
  }
  const auto ended = std::ranges::find(row.open.rbegin(), row.open.rend(), is_wait, &OpenSpan::is_wait);
  if (ended == row.open.rend()) return;  // it began before the timeline
  for (auto left = ended - row.open.rbegin(); left >= 0; --left)
    end_innermost(rank, record.thread, row, at_ns);
}

void RecordJoiner::end_innermost(std::size_t rank, std::uint32_t thread, ThreadRow& row, std::int64_t at_ns) {
  const OpenSpan one = row.open.back();
  row.open.pop_back();
  if (one.is_wait) {
    sink_->wait(rank, thread, one.begin_ns, at_ns);
  } else {
    sink_->span(rank, thread, one.name, one.begin_ns, at_ns);
  }
}

void RecordJoiner::end_rank(std::size_t rank) {
  has_ended_[rank] = true;
  ++ended_[files_.epoch_of(rank)];
  Reader& reader = readers_[rank];
  if (reader.file) reader.file->close();
  for (auto& [thread, row] : reader.threads) {
    while (!row.open.empty()) end_innermost(rank, thread, row, std::max(row.last_ns, reader.last_ns));
  }
  for (const auto& [key, submits] : reader.submits) {
    for (const Submit& submit : submits) {
      sink_->lonely_tensor(rank, {.name = key.second,
                                  .submit_ns = submit.at_ns,
                                  .bytes = submit.bytes,
                                  .thread = submit.thread,
                                  .set = key.first,
                                  .kind = submit.kind,
                                  .dtype = submit.dtype});
    }
  }
  reader.submits.clear();
  if (files_.is_elastic()) sink_->load(rank, reader.last_ns, {});
  for (auto batch = open_.begin(); batch != open_.end();) {
    const auto next = std::next(batch);
    if (is_complete(batch->first, batch->second)) hand_over(batch);
    batch = next;
  }
}

/// True if no record that is still unread can belong to the batch.
bool RecordJoiner::is_complete(const BatchKey& key, const JoinedBatch& batch) const {
  const JobEpoch& epoch = files_.epochs()[key.epoch];
  const std::size_t members = files_.members(key.epoch, batch.set);
  std::size_t seen = batch.parts.size();
  if (seen + ended_[key.epoch] < members) return false;
  for (const RankPart& part : batch.parts) {
    if (part.left != 0 && !has_ended_[part.index]) return false;
  }
  for (std::size_t rank = epoch.first; rank < epoch.first + epoch.count && seen < members; ++rank) {
    const bool is_in = std::ranges::binary_search(batch.parts, rank, {}, &RankPart::index);
    if (!is_in && has_ended_[rank] && files_.ranks()[rank].sets.contains(batch.set)) ++seen;
  }
  return seen >= members;
}

void RecordJoiner::hand_over(std::map<BatchKey, JoinedBatch>::iterator batch) {
  sink_->batch(batch->second);
  open_.erase(batch);
}

}  // namespace dabke::timeline
