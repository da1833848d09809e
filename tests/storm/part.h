// One call of the C API on this rank: its tensors, its handle, and its expected results. A Call is one Part,
// or one Part for each member of its group.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "buffer.h"
#include "dabke/dabke.h"
#include "device.h"
#include "oracle.h"
#include "program.h"
#include "random.h"
#include "report.h"

namespace storm {

/// The state that a job has reached, as one rank sees it.
struct Here {
  const Program& program;
  const Epoch& epoch;
  int rank = 0;
  std::vector<dabke_process_set> ids;  // of Epoch::sets, once they exist

  Ranks ranks_of(int set) const { return epoch.sets[static_cast<std::size_t>(set)].ranks; }
};

class Part;

/// Counts the calls of a callback. Lives until the job has ended; the count must be one then.
struct Called {
  std::mutex mutex;
  std::condition_variable changed;
  int times = 0;
  dabke_status status = DABKE_IN_PROGRESS;
  Part* follower = nullptr;  // the part to submit in the callback
};

/// A mistake that the worker makes on purpose, once. A check must notice it.
enum class Mistake { none, value, stop };

class Part {
 public:
  /// `call` is this rank's form of the call; `ending` is that of the true
  /// call. Tensors [first, first + count).
  Part(const Here& here, const Call& call, std::size_t first, std::size_t count, Random random);
  ~Part();
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  const Call& call() const { return call_; }
  /// Makes one element of the input wrong. Returns false if no check would notice.
  bool spoil();
  void submit(bool may_block);
  /// Polls the call, or waits for a moment.
  void glance(Random& random);
  /// Waits until the call has ended. Call it after a submission that was accepted.
  dabke_status wait();
  /// Waits until the call has ended, and checks everything.
  void finish();
  /// How many of a thousand elements of a receive have come, also if it has failed.
  int arrived_permille() const;
  bool has_callback() const { return called_ != nullptr; }
  /// Checks that the callback was called once. Call it after the job.
  void check_callback() const;

 private:
  struct Tensor;
  Buffer buffer(std::size_t size_bytes, std::size_t offset, bool is_registered) const;
  void make_tensors();
  void choose_output(Tensor& tensor, std::size_t index);
  void set_options();
  void produce_on_stream();
  dabke_status start(bool blocks);
  dabke_status start_grouped(bool blocks);
  bool refuses_outputs() const;
  bool has_outputs() const;
  bool can_block() const;
  void wait_on_stream();
  dabke_status wait_for_callback();
  void check_fences() const;
  void check_outputs();
  dabke_status wanted_status() const;
  std::string message() const;
  void check_output(std::size_t index);
  void check_splits();
  std::string what() const;
  [[noreturn]] void fail(const std::string& text) const;
  static int allocate(void* context, std::size_t index, DLTensor* tensor);
  static void called(void* context, dabke_handle* handle, dabke_status status);

  const Here& here_;
  const Call call_;
  const std::size_t first_;
  const Oracle oracle_;
  Random random_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::vector<Buffer> allocated_;  // from the output allocator
  std::vector<std::int64_t> splits_;
  dabke_options options_ = DABKE_OPTIONS_INIT;
  int stream_ = -1;                            // the stream on which the inputs are written, if any
  std::optional<fake_cuda::Stream> producer_;  // that stream, once it is used
  std::shared_ptr<void> event_;
  bool wants_handle_ = true;
  bool is_refused_ = false;  // the job was over; nothing follows
  bool has_blocked_ = false;
  dabke_status blocked_status_ = DABKE_OK;
  std::string blocked_message_;
  dabke_handle* handle_ = nullptr;
  std::unique_ptr<Called> called_;
  std::unique_ptr<Part> follower_;
  std::optional<Pending> pending_;
};

}  // namespace storm
