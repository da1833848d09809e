// The application's own stack, such as the Python frames that a Python binding provides.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/clock.h"

namespace dabke::diagnosis {

/// Any thread may use it.
class StackSource {
 public:
  /// Sets the provider; null removes it. A call of the old provider may still be running then.
  using Provider = std::function<std::string()>;
  void set(Provider provider);

  /// Returns the provider's text; empty without a provider. If the provider does not return within `limit`,
  /// the text is a remark. A provider may hang, for example on an interpreter's lock. So it is called on a
  /// thread of its own, and not again while a call is running.
  std::string ask(Duration limit);

 private:
  struct Call;
  std::mutex mutex_;
  std::shared_ptr<const Provider> provider_;
  std::shared_ptr<Call> call_;  // the latest call
};

}  // namespace dabke::diagnosis
