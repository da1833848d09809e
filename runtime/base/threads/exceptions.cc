#include "runtime/base/threads/exceptions.h"

#include <exception>
#include <new>

namespace dabke {

Status out_of_memory() noexcept { return {Code::out_of_memory, "out of memory"}; }

Status caught() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& error) {
    try {
      return {Code::internal, error.what()};
    } catch (...) {
      return out_of_memory();
    }
  } catch (...) {
    return {Code::internal, "exception"};
  }
}

Status copy_of(const Status& status) noexcept {
  try {
    return status;
  } catch (...) {
    return status.code() == Code::out_of_memory ? out_of_memory() : Status(status.code(), "");
  }
}

}  // namespace dabke
