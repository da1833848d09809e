#include "benchmarks/perf/competitors/dabke_api.h"

#include <optional>

#include <fmt/format.h>

namespace dabke::perf {
namespace {

/// The library's dtypes are in the order of the table.
DLDataType dl_dtype(DType dtype) {
  DLDataType out{};
  (void)dabke_dtype_name(static_cast<std::size_t>(dtype), &out);
  return out;
}

/// Returns the memory of the call as the output, so that no call pays for an allocation.
int give_output(void* context, size_t, DLTensor* tensor) {
  tensor->data = context;
  return 0;
}

class ApiCall {
 public:
  explicit ApiCall(const Call& call);
  Status run();

 private:
  using WithHandle = dabke_status(const char*, const DLTensor*, const dabke_options*, dabke_handle**);
  Status run_with_output(WithHandle* collective);

  const Call call_;
  const std::string name_;
  DLTensor input_{}, output_{};
  dabke_options options_ = DABKE_OPTIONS_INIT;
};

ApiCall::ApiCall(const Call& call)
    : call_(call), name_(fmt::format("perf.{}.{}", name_of(call.kind), call.bytes())) {
  input_ = api_tensor(call_.dtype, call_.input, call_.elements);
  output_ = api_tensor(call_.dtype, call_.output, call_.output_elements);
  options_.op = static_cast<dabke_reduce_op>(call.op);
  options_.output_allocator = &give_output;
  options_.output_allocator_context = call_.output;
}

Status ApiCall::run() {
  const char* const name = name_.c_str();
  const DLTensor* const output = call_.in_place() ? nullptr : &output_;
  switch (call_.kind) {
    case CollectiveKind::allreduce: return api_status(dabke_allreduce(name, &input_, output, &options_));
    case CollectiveKind::broadcast: return api_status(dabke_broadcast(name, &input_, output, &options_));
    case CollectiveKind::reducescatter:
      return api_status(dabke_reducescatter(name, &input_, output, &options_));
    case CollectiveKind::allgather: return run_with_output(&dabke_allgather);
    case CollectiveKind::alltoall: return run_with_output(&dabke_alltoall);
    default: return api_status(dabke_barrier(&options_));
  }
}

Status ApiCall::run_with_output(WithHandle* collective) {
  dabke_handle* handle = nullptr;
  const Status status = api_status(collective(name_.c_str(), &input_, &options_, &handle));
  dabke_handle_free(handle);
  return status;
}

class ApiBackend final : public Competitor {
 public:
  explicit ApiBackend(const std::string& backend) : backend_(backend) {}

  std::string name() const override { return "dabke " + backend_; }
  // The runtime gives a call that the backend cannot run to another backend.
  bool can_run(const Call&) const override { return true; }
  Status begin(const Call& call) override {
    DABKE_ASSIGN_OR_RETURN(auto session, ApiSession::open(backend_));
    session_.emplace(std::move(session));
    call_.emplace(call);
    return {};
  }
  Status run() override { return call_->run(); }
  void end() override {
    call_.reset();
    session_.reset();
  }

 private:
  const std::string backend_;
  std::optional<ApiSession> session_;
  std::optional<ApiCall> call_;
};

}  // namespace

Status api_status(dabke_status status) {
  if (status == DABKE_OK) return {};
  return {static_cast<Code>(status), dabke_last_error()};
}

Result<ApiSession> ApiSession::open(const std::string& backend) {
  const std::string setting = "CPU_OPERATIONS=" + backend;
  const char* const settings[] = {setting.c_str(), nullptr};
  dabke_init_options options = DABKE_INIT_OPTIONS_INIT;
  options.settings = settings;
  DABKE_RETURN_IF_ERROR(api_status(dabke_init(&options)));
  return ApiSession();
}

ApiSession::~ApiSession() {
  if (is_open_) (void)dabke_shutdown();
}

DLTensor api_tensor(DType dtype, void* data, const std::int64_t& elements) {
  DLTensor tensor{};
  tensor.data = data;
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = dl_dtype(dtype);
  tensor.shape = const_cast<std::int64_t*>(&elements);
  return tensor;
}

std::unique_ptr<Competitor> make_api_backend(const std::string& backend) {
  return std::make_unique<ApiBackend>(backend);
}

}  // namespace dabke::perf
