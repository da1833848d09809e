#include "bindings/python/jax/completion.h"

#include "bindings/python/jax/errors.h"

namespace dabke::python::jax {
namespace {

/// True on the runtime's thread for callbacks, from its first one on.
bool& callback_thread_mark() {
  thread_local bool is_marked = false;
  return is_marked;
}

}  // namespace

bool Completion::is_on_callback_thread() { return callback_thread_mark(); }

Completion* Completion::make(const xla::Api& api, std::size_t operations, xla::Error** error) {
  auto arguments = xla::make_arguments<xla::FutureCreateArguments>();
  *error = api.future_create(&arguments);
  return *error ? nullptr : new Completion(api, arguments.future, operations);
}

void Completion::on_completed(void* context, dabke_handle* handle, dabke_status status) {
  callback_thread_mark() = true;
  auto* const self = static_cast<Completion*>(context);
  if (status != DABKE_OK) self->note(status, dabke_handle_message(handle));
  self->count_down();
}

void Completion::fail(dabke_status status, const char* text) {
  note(status, text);
  count_down();
}

void Completion::note(dabke_status status, const char* text) {
  const std::lock_guard lock(mutex_);
  if (status_ != DABKE_OK) return;
  status_ = status;
  text_ = text;
}

void Completion::count_down() {
  if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (status_ == DABKE_OK) {
    auto arguments = xla::make_arguments<xla::FutureSetAvailableArguments>();
    arguments.future = future_;
    api_.future_set_available(&arguments);
  } else {
    auto arguments = xla::make_arguments<xla::FutureSetErrorArguments>();
    arguments.future = future_;
    arguments.error = make_error(api_, status_, text_);
    api_.future_set_error(&arguments);
  }
  delete this;
}

}  // namespace dabke::python::jax
