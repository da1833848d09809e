// The arguments of a program's collective on a fake device: tensors, and the
// stream or event that makes them ready.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/fake_cuda/doubles.h"
#include "tests/fake_cuda/program.h"
#include "tests/in_process/job.h"

namespace dabke::test {

/// Numbers of a rank of a test on its device, whose memory is host memory.
template <class T = float>
class Tensor {
 public:
  Tensor(Rank& self, std::size_t elements)
      : data_(static_cast<T*>(allocate_on_double(self.rank(), elements * sizeof(T)))),
        view_{
            data_, dtype_of<T>, {DeviceType::cuda, self.rank()}, Shape{static_cast<std::int64_t>(elements)}} {
    fill(0);
  }
  const TensorView& view() const { return view_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + view_.elements(); }
  void fill(T value) const { std::fill(begin(), end(), value); }
  /// Writes on the stream, as a kernel of the program does, at some later time.
  void write_on(const fake_cuda::Stream& stream, T value) const {
    stream.enqueue([self = *this, value] { self.fill(value); });
  }
  std::vector<T> values() const { return {begin(), end()}; }

 private:
  T* data_;  // never freed: the fake driver would wait for the program's streams
  TensorView view_;
};

struct Behind {
  void* stream = nullptr;
  std::shared_ptr<void> event = nullptr;
};

inline OperationRef sum_of(const TensorView& view, const std::string& name, const Behind& behind = {},
                           CollectiveKind kind = CollectiveKind::allreduce) {
  auto operation = OperationRef::adopt(new Operation);
  operation->request->kind = kind;
  operation->request->name = name;
  operation->request->op = ReduceOp::sum;
  operation->request->tensors.push_back({name, view.dtype, view.shape});
  operation->inputs.push_back(view);
  operation->outputs.push_back({});
  operation->make_extras().stream = {behind.stream};
  operation->make_extras().ready_event = {behind.event.get()};
  return operation;
}

inline void finish(const OperationRef& operation) {
  operation->wait_until(kNever);
  must(operation->status());
}

}  // namespace dabke::test
