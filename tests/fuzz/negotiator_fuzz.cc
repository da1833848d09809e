// One rank's Negotiator in a job whose neighbours send anything. Whatever they send, the Negotiator stays
// consistent. Each token completes exactly once. Its messages can be read. After its end, no token is left.
#include "tests/fuzz/check.h"
#include "tests/fuzz/negotiator_job.h"
#include "tests/sim/pending_tokens.h"

namespace dabke::test {
namespace {

class Job {
 public:
  explicit Job(Input& input)
      : input_(input),
        rank_(kRanks[input.below(std::size(kRanks))]),
        negotiator_(options_of(rank_, input.byte())),
        neighbours_(topology()->neighbours(rank_)) {
    if (rank_ == 0) negotiator_.record_readiness(1);
  }

  void run() {
    while (!input_.is_empty()) {
      happen(static_cast<Event>(input_.below(static_cast<std::size_t>(Event::count))));
      perform();
    }
    negotiator_.abort({Code::aborted, "the run ends"});
    perform();
    FUZZ_CHECK(tokens_.count() == 0);
  }

 private:
  void happen(Event event) {
    switch (event) {
      case Event::message: {
        const Rank peer = neighbours_[input_.below(neighbours_.size())];
        return negotiator_.message_from(peer, bytes_of(input_.piece()), now_);
      }
      case Event::submit: {
        const RequestRef& request = requests()[input_.below(requests().size())];
        return negotiator_.submit(tokens_.add(rank_, request), request, now_);
      }
      case Event::tick: now_ += std::chrono::milliseconds(250) * input_.byte(); return negotiator_.tick(now_);
      case Event::want:
        return negotiator_.want(kWorldSet, requests()[input_.below(requests().size())]->name, now_);
      case Event::member: {
        static const RequestRef member = request_of(CollectiveKind::allreduce, "m", {2});
        return (void)negotiator_.submit_member(member, "g", 3, now_);
      }
      case Event::busy: {
        const unsigned byte = input_.byte();
        const DeviceType type = kDeviceTypes[(byte >> 1) % kDeviceTypeCount];
        return negotiator_.set_data_plane_busy(type, (byte & 1) != 0);
      }
      case Event::stack: return negotiator_.give_stack(++stacks_, "at work", now_);
      case Event::long_run:
        negotiator_.note_running({1, kWorldSet, "allreduce 'x'", now_}, now_);
        return negotiator_.note_long_run({1, kWorldSet, "allreduce 'x'", now_}, now_);
      case Event::leave: return negotiator_.leave(now_);
      case Event::dumps:
        return negotiator_.ask_for_dumps("asked", negotiation::Negotiator::Dumped::as_asked, now_);
      case Event::peer_lost:
        return negotiator_.peer_lost(neighbours_[input_.below(neighbours_.size())],
                                     {Code::peer_lost, "gone"});
      case Event::change: return negotiator_.announce_change(input_.byte());
      case Event::timeline: {
        const unsigned byte = input_.byte();
        return negotiator_.change_timeline({(byte & 1) != 0, false, (byte & 1) != 0 ? "trace" : ""},
                                           byte >> 1, now_);
      }
      case Event::count: return;
    }
  }

  void perform() {
    for (const negotiation::Action& action : negotiator_.take_actions(now_)) {
      if (const auto* sent = std::get_if<negotiation::SendAction>(&action)) {
        FUZZ_CHECK(std::ranges::count(neighbours_, sent->peer) == 1);
        FUZZ_CHECK(wire::decode(*sent->message).is_ok());
      } else if (const auto* done = std::get_if<negotiation::CompleteAction>(&action)) {
        tokens_.complete(rank_, done->token);
      } else if (const auto* execute = std::get_if<negotiation::ExecuteAction>(&action)) {
        for (const negotiation::OrderedRequest& ordered : execute->requests) {
          FUZZ_CHECK(ordered.agreed);
          if (ordered.token != negotiation::Token::none) tokens_.complete(rank_, ordered.token);
        }
        for (const negotiation::BatchedTensor& tensor : execute->tensors)
          FUZZ_CHECK(tensor.request < execute->requests.size());
      }
    }
    (void)negotiator_.next_tick();
    (void)negotiator_.take_readiness();
  }

  Input& input_;
  const Rank rank_;
  negotiation::Negotiator negotiator_;
  const std::vector<Rank> neighbours_;
  TimePoint now_{std::chrono::hours(1)};
  std::uint64_t stacks_ = 0;  // that were given
  PendingTokens tokens_{topology()->size()};
};

}  // namespace
}  // namespace dabke::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dabke::test::Input input(data, size);
  dabke::test::Job(input).run();
  return 0;
}
