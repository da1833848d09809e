#include "runtime/negotiation/tables/tensor_entry.h"

namespace dabke::negotiation {

void ReporterSet::insert(int reporter) {
  if (reporter < 64) {
    low_ |= std::uint64_t{1} << reporter;
    return;
  }
  const auto at = static_cast<std::size_t>(reporter - 64);
  if (!high_) high_ = std::make_unique<std::vector<bool>>();
  if (at >= high_->size()) high_->resize(at + 1);
  (*high_)[at] = true;
}

bool ReporterSet::high(int reporter) const {
  const auto at = static_cast<std::size_t>(reporter - 64);
  return high_ && at < high_->size() && (*high_)[at];
}

void ReporterSet::clear() {
  low_ = 0;
  high_.reset();
}

void Submissions::push(Submitted submitted) {
  if (empty()) {
    front_ = std::move(submitted);
    return;
  }
  if (!later_) later_ = std::make_unique<std::deque<Submitted>>();
  later_->push_back(std::move(submitted));
}

Submitted Submissions::pop(TimePoint now) {
  Submitted first = std::exchange(front_, {});
  if (!later_) return first;
  front_ = std::move(later_->front());
  front_.since = now;
  later_->pop_front();
  if (later_->empty()) later_.reset();
  return first;
}

}  // namespace dabke::negotiation
