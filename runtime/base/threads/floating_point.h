// The floating-point environment in which every rank computes results.
#pragma once

#ifdef __x86_64__
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace dabke {

/// While it exists, the calling thread rounds to nearest, keeps subnormal numbers and raises no signal. Its
/// end restores the former environment. For threads of the application, and for threads of other libraries,
/// which inherit that.
class DefaultFloatingPoint {
 public:
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;

#ifdef __x86_64__
  // Only SSE's environment: nothing here computes with the x87, whose environment fesetenv() needs 0.5 us to
  // set.
  DefaultFloatingPoint() : before_(_mm_getcsr()) { _mm_setcsr(kDefault); }
  ~DefaultFloatingPoint() { _mm_setcsr(before_); }

 private:
  static constexpr unsigned kDefault = 0x1f80;  // of a new process: all exceptions masked, no flag set
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
