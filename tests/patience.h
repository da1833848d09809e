// How long a test waits for what is promised within 2 s or so. Only a defect takes longer, also on a machine
// with more ranks than cores; a sanitizer on a full machine makes everything take many times as long.
#pragma once

#include <chrono>

namespace dabke::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline constexpr std::chrono::seconds kPatience{kSanitized ? 60 : 10};

}  // namespace dabke::test
