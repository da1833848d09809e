// Writes the seeds of `decode` and `negotiator`. A job of five Negotiators runs in this process. The events
// of each are stored as the input that makes the fuzzed Negotiator do the same.
// Also writes the seeds of `shm_agreement`, which contain the size of a segment, and those of `records`. The
// seeds of the other targets were written by hand.
//
//   make_corpus CORPUS_DIR     (tests/fuzz/run.sh --corpus)
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "runtime/links/shm/shm_link.h"
#include "runtime/timeline/recording/record_file_writer.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/negotiator_job.h"

namespace dabke::test {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, std::string_view bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string piece(std::span<const std::byte> bytes) {
  std::string out{static_cast<char>(bytes.size() & 0xff), static_cast<char>(bytes.size() >> 8)};
  return out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

class Recording {
 public:
  Recording(fs::path corpus, std::string name, unsigned bits)
      : corpus_(std::move(corpus)), name_(std::move(name)) {
    for (Rank rank = 0; rank < topology()->size(); ++rank) {
      negotiators_.push_back(std::make_unique<negotiation::Negotiator>(options_of(rank, bits)));
      inputs_.emplace_back().push_back(static_cast<char>(bits));
    }
  }

  void submit(Rank rank, std::size_t request) {
    note(rank, Event::submit, {static_cast<char>(request)});
    negotiator(rank).submit(negotiation::Token{++submitted_}, requests()[request], now_);
  }
  void submit_everywhere(std::size_t request) {
    for (Rank rank = 0; rank < topology()->size(); ++rank) submit(rank, request);
    settle();
  }
  void want(Rank rank, std::size_t request) {
    note(rank, Event::want, {static_cast<char>(request)});
    negotiator(rank).want(kWorldSet, requests()[request]->name, now_);
  }
  void member(Rank rank) {
    note(rank, Event::member, {});
    (void)negotiator(rank).submit_member(request_of(CollectiveKind::allreduce, "m", {2}), "g", 3, now_);
  }
  void change_timeline(Rank rank, bool starts, unsigned from) {
    note(rank, Event::timeline, {static_cast<char>(from << 1 | (starts ? 1 : 0))});
    negotiator(rank).change_timeline({starts, false, starts ? "trace" : ""}, from, now_);
    settle();
  }
  void announce_change(unsigned changes) {
    note(0, Event::change, {static_cast<char>(changes)});
    negotiator(0).announce_change(changes);
  }
  void leave(Rank rank) {
    note(rank, Event::leave, {});
    negotiator(rank).leave(now_);
  }
  void let_pass(int quarters) {
    now_ += std::chrono::milliseconds(250) * quarters;
    for (Rank rank = 0; rank < topology()->size(); ++rank) {
      note(rank, Event::tick, {static_cast<char>(quarters)});
      negotiator(rank).tick(now_);
    }
    settle();
  }
  /// Runs until no message is under way.
  void settle() {
    for (bool any = true; any;) {
      any = false;
      for (Rank rank = 0; rank < topology()->size(); ++rank) {
        for (const negotiation::Action& action : negotiator(rank).take_actions(now_)) {
          if (const auto* sent = std::get_if<negotiation::SendAction>(&action)) {
            deliver(rank, sent->peer, *sent->message);
            any = true;
          } else if (const auto* stack = std::get_if<negotiation::StackAction>(&action)) {
            note(rank, Event::stack, {});
            negotiator(rank).give_stack(stack->number, "at work", now_);
            any = true;
          }
        }
      }
    }
  }
  ~Recording() {
    settle();
    for (std::size_t i = 0; i < std::size(kRanks); ++i) {
      write(corpus_ / "negotiator" / (name_ + "-" + std::to_string(kRanks[i])),
            static_cast<char>(i) + inputs_[static_cast<std::size_t>(kRanks[i])]);
    }
  }

 private:
  negotiation::Negotiator& negotiator(Rank rank) { return *negotiators_[static_cast<std::size_t>(rank)]; }
  void note(Rank rank, Event event, std::string what) {
    inputs_[static_cast<std::size_t>(rank)] += static_cast<char>(event) + what;
  }
  void deliver(Rank from, Rank to, const std::vector<std::byte>& bytes) {
    const auto neighbours = topology()->neighbours(to);
    const auto place = std::ranges::find(neighbours, from) - neighbours.begin();
    note(to, Event::message, static_cast<char>(place) + piece(bytes));
    const auto kind = static_cast<unsigned>(bytes.front());
    const int number = ++of_kind_[kind];
    if (number <= 4) {
      write(corpus_ / "decode" / (name_ + "-" + std::to_string(kind) + "-" + std::to_string(number)),
            {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
    negotiator(to).message_from(from, bytes, now_);
  }

  fs::path corpus_;
  std::string name_;
  std::vector<std::unique_ptr<negotiation::Negotiator>> negotiators_;
  std::vector<std::string> inputs_;
  std::map<unsigned, int> of_kind_;
  std::uint64_t submitted_ = 0;
  TimePoint now_{std::chrono::hours(1)};
};

void record_all(const fs::path& corpus) {
  {
    Recording steps(corpus, "steps", 64);
    for (int step = 0; step < 4; ++step) {
      for (const std::size_t request : {0, 1, 3, 4, 5, 6, 13}) steps.submit_everywhere(request);
    }
  }
  // After six steps, a tensor waits for the others of its learned batch,
  for (const bool is_wanted : {true, false}) {
    Recording learned(corpus, is_wanted ? "wanted" : "learned", 64);
    for (int step = 0; step < 6; ++step) {
      for (const std::size_t request : {0, 1}) learned.submit_everywhere(request);
    }
    if (is_wanted) {  // until a thread waits for it,
      learned.want(4, 1);
      learned.settle();
    } else {  // or until its time is over.
      learned.let_pass(1);
    }
    for (const std::size_t request : {0, 1, 3})
      learned.submit_everywhere(request);  // the last request ends the learned batch
  }
  {
    Recording evictions(corpus, "evictions", 32);
    for (int round = 0; round < 2; ++round) {
      for (const std::size_t request : {0, 1, 3, 5}) evictions.submit_everywhere(request);
    }
    // The slot is reported while the order that evicts it is under way.
    evictions.submit(4, 5);
    evictions.submit_everywhere(0);
    for (const Rank rank : {0, 1, 2, 3}) evictions.submit(rank, 5);
    evictions.settle();
  }
  {
    Recording mixed(corpus, "mixed", 32);
    mixed.submit_everywhere(11);  // adds the set of the next requests
    for (const Rank rank : {0, 3, 4}) mixed.submit(rank, 8);
    mixed.submit(0, 0);
    mixed.submit(1, 2);  // another shape
    for (const Rank rank : {2, 3, 4}) mixed.submit(rank, 0);
    mixed.submit_everywhere(14);
    mixed.submit_everywhere(12);
  }
  {
    Recording members(corpus, "members", 0);
    for (const std::size_t request : {16, 16, 8, 17, 17, 17}) {
      for (const Rank rank : {4, 0, 3}) members.submit(rank, request);
      members.settle();
    }
  }
  {
    Recording joins(corpus, "joins", 16);
    joins.submit(4, 7);
    for (const std::size_t request : {0, 3}) {
      for (const Rank rank : {0, 1, 2, 3}) joins.submit(rank, request);
      joins.settle();
    }
    for (const Rank rank : {0, 1, 2, 3}) joins.submit(rank, 7);
    joins.settle();
    joins.leave(4);
    joins.settle();
    for (const Rank rank : {3, 0, 1, 2}) joins.leave(rank);
  }
  {
    Recording devices(corpus, "devices", 0);  // a rank without a device has joined
    devices.submit(4, 7);
    for (const std::size_t request : {15, 0}) {
      for (const Rank rank : {0, 1, 2, 3}) devices.submit(rank, request);
      devices.settle();
    }
    for (const Rank rank : {0, 1, 2, 3}) devices.submit(rank, 7);
  }
  {
    Recording timelines(corpus, "timelines", 64);
    for (const unsigned from : {0U, 2U}) {
      timelines.submit_everywhere(0);
      timelines.change_timeline(4, true, from);
      timelines.change_timeline(2, true, from);  // has been done already
      timelines.submit_everywhere(0);
      timelines.change_timeline(0, false, from + 1);
    }
  }
  {
    Recording changes(corpus, "changes", 0);
    changes.submit_everywhere(0);
    changes.announce_change(3);
    changes.submit_everywhere(0);
    changes.submit_everywhere(6);  // a barrier
  }
  {
    Recording stalls(corpus, "stalls", 2 | 4 | 8 | 16);
    for (const Rank rank : {0, 1, 2, 4}) stalls.submit(rank, 0);
    stalls.submit(3, 8);
    stalls.member(4);
    stalls.submit(2, 7);
    for (int i = 0; i < 12; ++i) stalls.let_pass(4);
  }
}

void write_offers(const fs::path& corpus) {
  std::string offer = "DABKESH1";
  for (std::size_t size = sizeof(shm::ShmLinkMemory), i = 0; i < 8; ++i, size >>= 8)
    offer += static_cast<char>(size);
  const std::string sent = piece(std::as_bytes(std::span(offer)));
  // The connector gets three descriptors (a segment and two eventfds) and the word.
  const std::string word("\0\1\0A", 4), taken("\0\1\0T", 4);
  const auto offer_of = [&](char memory) { return std::string("\0\3", 2) + memory + "\4\4" + sent + word; };
  write(corpus / "shm_agreement" / "offer", offer_of(0));
  write(corpus / "shm_agreement" / "too-small", offer_of(2));
  write(corpus / "shm_agreement" / "no-memory", offer_of(5));
  write(corpus / "shm_agreement" / "no-pages", offer_of(6));
  // A frame of two bytes, a frame of this side, the end; then an impossible index.
  const std::string frame("\2\0\0\0hi", 6);
  const std::string step_frame = std::string(1, '\0') + piece(std::as_bytes(std::span(frame)));
  const std::string step_send("\7\3\0abc", 6), step_sleeps("\6", 1), step_end("\3\1", 2);
  write(corpus / "shm_agreement" / "frames", offer_of(0) + step_frame + step_sleeps + step_send + step_end);
  write(corpus / "shm_agreement" / "damaged", offer_of(0) + step_frame + "\1" + std::string(8, '\x7f'));
  write(corpus / "shm_agreement" / "one-descriptor", std::string("\0\1\0", 3) + sent);
  write(corpus / "shm_agreement" / "taken", "\1" + std::string("\0\0\0", 3) + taken);
}

}  // namespace

/// Writes a file of records without the times and names of this host. The target corrects the checks.
void write_records(const fs::path& path, const std::vector<timeline::Record>& records,
                   timeline::NameTable& names) {
  const std::string file = path.string() + ".written";
  fs::create_directories(path.parent_path());
  auto writer = timeline::RecordFileWriter::open(file, {.size = 2, .host = "host"}, names).take();
  for (const timeline::Record& record : records) writer->write(record);
  writer->finish(0, {.records = records.size()});
  FUZZ_CHECK(writer->close().is_ok());
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  fs::remove(file);
  constexpr std::size_t kAt = sizeof(timeline::FilePreface) + sizeof(timeline::BlockHead);
  timeline::OriginHead origin;
  std::memcpy(&origin, bytes.data() + kAt, sizeof origin);
  origin.monotonic_ns = origin.realtime_ns = 1'000'000'000;
  origin.time_namespace = 0;
  std::memcpy(bytes.data() + kAt, &origin, sizeof origin);
  std::fill_n(bytes.begin() + kAt + sizeof origin + origin.host_bytes, origin.boot_bytes, '0');
  write(path, "\x01" + bytes);
}

/// Writes a batch of two tensors with all its stages, a refused tensor, and records that belong to no tensor.
void write_job_records(const fs::path& corpus) {
  using What = timeline::Record::What;
  timeline::NameTable names;
  timeline::LastNames last{};
  const auto number = [&](timeline::NameKind kind, std::string_view name) {
    return names.number_of(kind, name, last);
  };
  const auto thread = number(timeline::NameKind::thread, "main 1"),
             span = number(timeline::NameKind::span, "forward"),
             text = number(timeline::NameKind::text, "GLOO_ALLREDUCE"),
             error = number(timeline::NameKind::error, "Mismatched");
  const std::array tensors = {number(timeline::NameKind::tensor, "a"),
                              number(timeline::NameKind::tensor, "b")};
  const auto shape = names.number_of(Shape{2, 3}, tensors[0]);
  std::vector<timeline::Record> records;
  std::int64_t now = 1'000'000'000;
  const auto put = [&](timeline::Record record, What what, int flags = 0) {
    record.time_ns = now += 1000;
    record.thread = thread;
    record.what = what;
    record.flags = static_cast<std::uint8_t>(flags);
    records.push_back(record);
  };
  put({.name = span}, What::span);
  for (const auto tensor : tensors) put({.bytes = 24, .name = tensor}, What::submit);
  std::uint64_t order = 7;
  for (const auto tensor : tensors)
    put({.order = order++, .batch = 7, .bytes = 24, .name = tensor}, What::order);
  const timeline::Record batch{.order = 7, .batch = 7, .bytes = 48};
  for (const What what : {What::queue, What::allocate, What::pack, What::unpack}) {
    put(batch, what);
    put(batch, what, timeline::Record::kEnd);
  }
  timeline::Record run = batch;
  run.name = text;
  run.backend = run.algorithm = static_cast<std::uint16_t>(text);
  put(run, What::run);
  put(run, What::run, timeline::Record::kEnd);
  put({.order = 7, .batch = 7, .bytes = 24, .name = tensors[0], .number = shape}, What::done);
  put({.order = 8, .batch = 7, .bytes = 5, .name = tensors[1], .number = error}, What::error);
  put({}, What::span, timeline::Record::kEnd);
  put({.name = tensors[0]}, What::submit);
  put({.bytes = 5, .name = tensors[0], .number = error}, What::error);
  put({.bytes = 1}, What::step);
  put({}, What::cycle);
  put({.bytes = 3}, What::lost);
  put({.batch = 100, .bytes = 5, .number = 1}, What::clock);
  put({.name = tensors[1], .kind = CollectiveKind::barrier}, What::submit);
  put({.bytes = 2}, What::step);
  write_records(corpus / "records" / "everything", records, names);
  records.resize(6);
  write_records(corpus / "records" / "unfinished", records, names);
  timeline::NameTable no_names;
  write_records(corpus / "records" / "nothing", {}, no_names);
}

}  // namespace dabke::test

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: make_corpus CORPUS_DIR\n"), 2;
  dabke::test::record_all(argv[1]);
  dabke::test::write_offers(argv[1]);
  dabke::test::write_job_records(argv[1]);
}
