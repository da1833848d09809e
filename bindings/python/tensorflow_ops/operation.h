// A collective under way: its tensors, which live until it has completed, and its handles.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "bindings/python/tensorflow_ops/call.h"
#include "bindings/python/tensorflow_ops/inputs.h"

namespace dabke::python::tensorflow {

/// A collective of one kernel. It is made of several operations of the runtime where its tensors go one by
/// one.
///
/// 1. `prepare` takes the inputs and makes memory for outputs whose size is known. A context gives it memory
///    of an input that nobody else uses. Memory for other outputs is made when their size is known.
/// 2. `submit` hands all to the runtime. It does not block.
/// 3. When the last part has completed, `on_end` is called on a thread of the runtime, or `wait` returns.
/// 4. `deliver` gives outputs or the failure to the kernel.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  using OnEnd = std::function<void(Operation&)>;

  explicit Operation(const Call& call) : call_(call) {}
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  void prepare(TF_OpKernelContext* context, int further_inputs, bool outputs_in_context);
  /// `on_end` may be called before this returns. The object keeps itself until all parts have completed.
  void submit(OnEnd on_end);
  /// The same for a caller that calls `wait` next, and keeps the object until it has returned.
  void submit_for_wait();
  void wait();
  void deliver(TF_OpKernelContext* context);

 private:
  /// A tensor, or a whole group, which one handle of the runtime stands for.
  struct Part {
    Operation* operation;
    std::size_t first;  // its first tensor
    dabke_handle* handle = nullptr;
  };

  void make_output(TF_OpKernelContext* context, std::size_t index);
  void submit_parts(bool with_callback);
  void submit_part(Part& part, bool with_callback);
  dabke_status submit_one(std::size_t index, const dabke_options& options, dabke_handle** handle);
  dabke_status submit_group(const dabke_options& options, dabke_handle** handle);
  void refuse(const char* reason);
  void part_ended(const Part& part, dabke_handle* handle, dabke_status status);
  void make_empty_outputs(const Part& part, const dabke_handle* handle);
  void end_of_part();
  void note(Failure failure);
  bool is_group() const { return call_.is_group && inputs_.tensors.size() > 1; }

  static int allocate(void* context, std::size_t index, DLTensor* tensor);
  static void on_completion(void* context, dabke_handle* handle, dabke_status status);

  Call call_;
  Inputs inputs_;
  std::vector<Described> sources_;
  std::vector<Tensor> outputs_;
  std::vector<Described> targets_;   // of outputs whose size is known
  std::vector<bool> is_in_context_;  // outputs that the kernel has already
  std::deque<Part> parts_;
  std::atomic<std::size_t> pending_{0};
  std::mutex mutex_;  // guards the next two, and the outputs without elements
  Failure failure_;
  std::vector<std::int64_t> received_;  // an alltoall's rows by source rank
  OnEnd on_end_;
  std::shared_ptr<Operation> self_;  // keeps the object while parts are pending
};

}  // namespace dabke::python::tensorflow
