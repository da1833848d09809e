// Memory that runs out, on demand: this program's operator new and aligned_alloc stand before the real ones.
// Only what the runtime asks for counts: in its own threads, and in calls of the application that are marked
// so.
#pragma once

namespace dabke::test {

/// Lets request number `number` (from 1 on) from now on be refused, and with `from_then_on` all after it.
void let_memory_fail(int number, bool from_then_on = false);
/// How often memory has been asked for since then.
int memory_requests();

/// Says, while it lives, that the calling thread is in a call to the library.
class InLibrary {
 public:
  InLibrary();
  ~InLibrary();
};

}  // namespace dabke::test
