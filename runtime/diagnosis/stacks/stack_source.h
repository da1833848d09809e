// What the application tells of its own stack: a Python binding its Python frames, say.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/clock.h"

namespace dabke::diagnosis {

/// May be used from any thread.
class StackSource {
 public:
  /// Null removes it; a call that has begun may still be under way then.
  using Provider = std::function<std::string()>;
  void set(Provider provider);

  /// What it says within `limit`; a remark when it does not come back, empty when there is none. A provider
  /// may hang, for an interpreter's lock, say: it is called on a thread of its own, and not again while a
  /// call is under way.
  std::string ask(Duration limit);

 private:
  struct Call;
  std::mutex mutex_;
  std::shared_ptr<const Provider> provider_;
  std::shared_ptr<Call> call_;  // the last one
};

}  // namespace dabke::diagnosis
