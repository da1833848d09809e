// The floating-point environment in which results are computed, on every rank alike.
#pragma once

#ifdef __x86_64__
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace dabke {

/// While it lives, the calling thread rounds to nearest, keeps subnormal numbers and raises no signal; then it has again
/// what it had. For threads of the application, and for those that other libraries make, which inherit it.
class DefaultFloatingPoint {
 public:
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;

#ifdef __x86_64__
  // SSE's alone: nothing here computes with the x87, which fesetenv() takes half a microsecond to set.
  DefaultFloatingPoint() : before_(_mm_getcsr()) { _mm_setcsr(kDefault); }
  ~DefaultFloatingPoint() { _mm_setcsr(before_); }

 private:
  static constexpr unsigned kDefault = 0x1f80;  // as a process begins: all exceptions masked, no flag
  unsigned before_;
#else
  DefaultFloatingPoint() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatingPoint() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
#endif
};

}  // namespace dabke
