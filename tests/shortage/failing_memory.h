// Memory that runs out on demand: this program's operator new and aligned_alloc replace the real ones. Only
// requests of the runtime count: those of its own threads, and those in marked calls of the application.
#pragma once

namespace dabke::test {

/// From now on, request `number` (from 1 on) is refused, and with `from_then_on` all requests after it.
void let_memory_fail(int number, bool from_then_on = false);
/// The number of requests since then.
int memory_requests();

/// Marks the calling thread as inside a call to the library, as long as it lives.
class InLibrary {
 public:
  InLibrary();
  ~InLibrary();
};

}  // namespace dabke::test
