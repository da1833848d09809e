#include "runtime/base/status.h"

#include <system_error>

namespace dabke {

std::string_view name_of(Code code) {
  switch (code) {
#define X(id, text) \
  case Code::id: return #id;
    DABKE_CODES(X)
#undef X
  }
  return "unknown";
}

std::string_view text_of(Code code) {
  switch (code) {
#define X(id, text) \
  case Code::id: return text;
    DABKE_CODES(X)
#undef X
  }
  return "unknown error code";
}

Status system_error(std::string_view what, int errno_value) {
  return {Code::transport, std::string(what) + ": " + std::generic_category().message(errno_value)};
}

}  // namespace dabke
