#include "ops/shm/shm_domain.h"

#include <poll.h>

#include <algorithm>
#include <new>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/links/network.h"
#include "runtime/links/setup/link_setup.h"
#include "runtime/links/shm/shm_link.h"
#include "runtime/store/init_failure.h"

namespace dabke::ops {
namespace {

constexpr std::size_t kKiB = 1024;
// A slice of 64 KiB for each rank is best for staging, until memory counts more than waiting.
constexpr std::size_t kSliceBytes = 64 * kKiB;
constexpr std::size_t kLeastStage = 16 * kKiB;
constexpr std::size_t kMostStage = 1024 * kKiB;
constexpr std::size_t kMostOfAll = 64 * 1024 * kKiB;  // one stage of all ranks together

constexpr Duration kTroubleCheck = std::chrono::milliseconds(250);

/// Returns the smallest stage: a round must take at least a line for each rank, and an alltoall's head.
std::size_t least_stage(std::size_t ranks) { return std::max(kLeastStage, 128 * ranks); }

std::size_t stage_for(std::size_t ranks) {
  const std::size_t wanted = std::clamp(ranks * kSliceBytes, 4 * kSliceBytes, kMostStage);
  const std::size_t bytes = std::min(wanted, kMostOfAll / ranks);
  const std::size_t unit = 4096;
  return std::max(bytes / unit, std::size_t{1}) * unit;
}

/// A conversation over one link: each call waits for the frame.
class Conversation {
 public:
  Conversation(const BackendContext& context, shm::ShmLink& link, TimePoint deadline)
      : context_(context), link_(link), deadline_(deadline) {}

  Status send_text(const std::string& text) { return named(link_.send(std::as_bytes(std::span(text)))); }
  Status pass(int fd) { return named(link_.pass_descriptor(fd)); }
  Result<Fd> take() {
    auto taken = link_.take_descriptor(deadline_);
    if (!taken.is_ok()) return named(taken.status());
    return taken;
  }

  Result<std::string> hear() {
    Sink sink;
    while (!sink.text) {
      const auto received = link_.receive(sink);
      if (sink.text) break;
      if (!received.is_ok() || *received == links::Link::Received::closed)
        return gone(received.is_ok() ? "it closed its connection" : received.status().message());
      if (*received == links::Link::Received::more || !link_.prepare_to_sleep()) continue;
      const TimePoint now = Clock::now();
      pollfd entry{link_.descriptor(), POLLIN, 0};
      if (now < deadline_)
        (void)::poll(&entry, 1, poll_timeout_ms(std::min(deadline_, now + kTroubleCheck), now));
      link_.woken();
      DABKE_RETURN_IF_ERROR(context_.store->trouble());
      if (now < deadline_) continue;
      const store::AbsentRanks described = absent(store::kSecondInitVerdict);
      return Status(
          Code::timeout,
          fmt::format("{} did not share memory in time{}; the limit is {} s (DABKE_START_TIMEOUT_SECONDS)",
                      described.who, described.reported, context_.config.start_timeout));
    }
    return std::move(*sink.text);
  }

 private:
  struct Sink final : links::FrameSink {
    void on_frame(std::span<const std::byte> frame) override {
      text.emplace(reinterpret_cast<const char*>(frame.data()), frame.size());
    }
    std::optional<std::string> text;
  };

  /// Returns the error for a failure of the link, with the other end's reason if that has gone.
  Status named(const Status& failed) const {
    if (failed.is_ok()) return {};
    if (failed.code() == Code::peer_lost) return gone(failed.message());
    return {failed.code(),
            fmt::format("sharing memory with {}: {}", absent(Duration::zero()).who, failed.message())};
  }
  Status gone(const std::string& how) const {
    DABKE_RETURN_IF_ERROR(store::await_trouble(*context_.store, store::kInitVerdict));
    const store::AbsentRanks described = absent(Duration::zero());
    return {Code::transport,
            fmt::format("{} disappeared during dabke_init ({}): it was killed, or its init failed{}",
                        described.who, how, described.reported)};
  }

  /// Describes the other end, which may itself have waited in vain and may name the rank it waited for.
  store::AbsentRanks absent(Duration patience) const {
    const Rank rank[] = {link_.peer().rank};
    return store::describe_absent(*context_.store, context_.world, rank, patience);
  }

  const BackendContext& context_;
  shm::ShmLink& link_;
  TimePoint deadline_;
};

constexpr std::string_view kOffer = "offer";
constexpr std::string_view kGo = "go";
constexpr std::string_view kAlone = "alone";
constexpr std::string_view kTakenAnswer = "taken";

}  // namespace

/// The contents of an offer.
struct ShmDomain::Form {
  std::size_t stage_bytes = 0;
  std::vector<Rank> ranks;

  std::size_t segment_bytes() const { return ranks.size() * part_bytes(stage_bytes); }
  std::string to_text() const { return fmt::format("{} {} {}", kOffer, stage_bytes, fmt::join(ranks, " ")); }
  static std::optional<Form> parse(const std::string& text) {
    std::istringstream words(text);
    std::string what;
    Form form;
    if (!(words >> what >> form.stage_bytes) || what != kOffer) return std::nullopt;
    for (Rank rank = 0; words >> rank;) form.ranks.push_back(rank);
    return form;
  }
  Status take_part(shm::Segment& segment, Rank rank) const {
    const auto own = static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin());
    if (own == ranks.size()) return {Code::mismatch, "the offer is not for this rank"};
    DABKE_RETURN_IF_ERROR(segment.reserve(own * part_bytes(stage_bytes), part_bytes(stage_bytes)));
    new (segment.bytes().data() + own * part_bytes(stage_bytes)) ShmHead;
    return {};
  }
};

class ShmDomain::Leader {
 public:
  Leader(const BackendContext& context, std::vector<std::unique_ptr<links::Link>>& links, TimePoint deadline)
      : context_(context), links_(links), deadline_(deadline) {}

  Result<std::unique_ptr<ShmDomain>> run() {
    Form form{0, {context_.world.rank}};
    for (const auto& link : links_) {
      if (link->is_shared_memory()) form.ranks.push_back(link->peer().rank);
    }
    std::ranges::sort(form.ranks);
    if (form.ranks.size() == 1) return std::unique_ptr<ShmDomain>();
    for (form.stage_bytes = stage_for(form.ranks.size());; form.stage_bytes /= 4) {
      if (form.stage_bytes < least_stage(form.ranks.size())) break;
      DABKE_ASSIGN_OR_RETURN(auto domain, offer(form));
      if (domain) return domain;
    }
    DABKE_RETURN_IF_ERROR(send_to_all(std::string(kAlone)));
    context_.log.warning("the {} ranks of this host cannot share memory and use TCP instead: {}",
                         form.ranks.size(), why_not_);
    return std::unique_ptr<ShmDomain>();
  }

 private:
  /// Returns null if a rank could not take the offer.
  Result<std::unique_ptr<ShmDomain>> offer(const Form& form) {
    auto made = shm::Segment::create_empty("dabke-stages", form.segment_bytes(), context_.fork_guard);
    Status own = made.status();
    if (own.is_ok()) own = form.take_part(*made, context_.world.rank);
    if (!own.is_ok()) {
      why_not_ = fmt::format("rank {}: {}", context_.world.rank, own.message());
      return std::unique_ptr<ShmDomain>();
    }
    for (const auto& link : links_) {
      if (!link->is_shared_memory()) continue;
      auto& member = static_cast<shm::ShmLink&>(*link);
      Conversation conversation(context_, member, deadline_);
      DABKE_RETURN_IF_ERROR(conversation.send_text(form.to_text()));
      DABKE_RETURN_IF_ERROR(conversation.pass(made->descriptor()));
    }
    bool all = true;
    for (const auto& link : links_) {
      if (!link->is_shared_memory()) continue;
      DABKE_ASSIGN_OR_RETURN(const std::string answer,
                             Conversation(context_, static_cast<shm::ShmLink&>(*link), deadline_).hear());
      if (answer == kTakenAnswer) continue;
      all = false;
      why_not_ = fmt::format("rank {}: {}", link->peer().rank, answer);
    }
    if (!all) return std::unique_ptr<ShmDomain>();
    DABKE_RETURN_IF_ERROR(send_to_all(std::string(kGo)));
    return std::unique_ptr<ShmDomain>(new ShmDomain(made.take(), form.ranks, 0, form.stage_bytes));
  }

  Status send_to_all(const std::string& word) {
    for (const auto& link : links_) {
      if (link->is_shared_memory())
        DABKE_RETURN_IF_ERROR(
            Conversation(context_, static_cast<shm::ShmLink&>(*link), deadline_).send_text(word));
    }
    return {};
  }

  const BackendContext& context_;
  std::vector<std::unique_ptr<links::Link>>& links_;
  TimePoint deadline_;
  std::string why_not_ = "too many ranks";
};

class ShmDomain::Member {
 public:
  Member(const BackendContext& context, shm::ShmLink& link, TimePoint deadline)
      : context_(context), link_(link), deadline_(deadline) {}

  Result<std::unique_ptr<ShmDomain>> run() {
    Conversation leader(context_, link_, deadline_);
    Form form;
    shm::Segment segment;
    for (;;) {
      DABKE_ASSIGN_OR_RETURN(const std::string word, leader.hear());
      if (word == kAlone) return std::unique_ptr<ShmDomain>();
      if (word == kGo) break;
      auto offer = Form::parse(word);
      if (!offer)
        return Status(Code::mismatch, "the leader of the host offered shared memory in another format");
      form = std::move(*offer);
      const Status taken = take(leader, form, segment);
      DABKE_RETURN_IF_ERROR(leader.send_text(taken.is_ok() ? std::string(kTakenAnswer) : taken.message()));
    }
    const auto own =
        static_cast<std::size_t>(std::ranges::find(form.ranks, context_.world.rank) - form.ranks.begin());
    return std::unique_ptr<ShmDomain>(new ShmDomain(std::move(segment), form.ranks, own, form.stage_bytes));
  }

 private:
  Status take(Conversation& leader, const Form& form, shm::Segment& segment) {
    DABKE_ASSIGN_OR_RETURN(Fd fd, leader.take());
    DABKE_ASSIGN_OR_RETURN(
        segment, shm::Segment::adopt_empty(std::move(fd), form.segment_bytes(), context_.fork_guard));
    return form.take_part(segment, context_.world.rank);
  }

  const BackendContext& context_;
  shm::ShmLink& link_;
  TimePoint deadline_;
};

ShmDomain::ShmDomain(shm::Segment segment, std::vector<Rank> ranks, std::size_t own, std::size_t stage_bytes)
    : segment_(std::move(segment)), ranks_(std::move(ranks)), own_(own), stage_bytes_(stage_bytes) {
  segment_.close_descriptor();
}

Result<std::unique_ptr<ShmDomain>> ShmDomain::open(const BackendContext& context) {
  const World& world = context.world;
  std::vector<Rank> here;
  for (Rank rank = 0; rank < static_cast<Rank>(world.hosts.size()); ++rank) {
    if (world.hosts[static_cast<std::size_t>(rank)] == world.hosts[static_cast<std::size_t>(world.rank)])
      here.push_back(rank);
  }
  if (here.size() < 2) return std::unique_ptr<ShmDomain>();
  const bool leads = here.front() == world.rank;
  std::vector<Rank> others(here.begin() + 1, here.end());
  if (!leads) others = {here.front()};
  const TimePoint deadline = deadline_after(context.config.start_timeout);
  DABKE_ASSIGN_OR_RETURN(const links::SocketAddress address, links::listening_address(world));
  DABKE_ASSIGN_OR_RETURN(auto links,
                         links::open_links({.world = world,
                                            .neighbours = others,
                                            .listen_at = address,
                                            .store = context.store,
                                            .guard = context.fork_guard,
                                            .log = context.log,
                                            .deadline = deadline,
                                            .prefix = "shm",
                                            .shared_memory = links::SharedMemory::where_possible}));
  if (leads) return Leader(context, links, deadline).run();
  if (!links.front()->is_shared_memory()) return std::unique_ptr<ShmDomain>();
  return Member(context, static_cast<shm::ShmLink&>(*links.front()), deadline).run();
}

}  // namespace dabke::ops
