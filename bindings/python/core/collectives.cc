// A submit function for each collective, and for both ends of a message. Each takes any object that
// tensor_of() takes, and returns a Handle at once. The blocking forms of the package are a submit with
// `wait_follows`, and a wait.
#include <algorithm>
#include <cstring>
#include <utility>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/handle.h"
#include "bindings/python/core/options.h"
#include "bindings/python/core/refusal.h"
#include "bindings/python/core/text.h"

namespace dabke::python {
namespace {

using SubmitOne = dabke_status (*)(const char*, const DLTensor*, const DLTensor*, const dabke_options*,
                                   dabke_handle**);
using SubmitGroup = dabke_status (*)(const char* const*, const DLTensor* const*, const DLTensor* const*,
                                     std::size_t, const dabke_options*, dabke_handle**);

// Collectives whose outputs may be memory of the runtime have two functions in C.
dabke_status allgather(const char* name, const DLTensor* input, const DLTensor* output,
                       const dabke_options* options, dabke_handle** handle) {
  return output == nullptr ? dabke_allgather_async(name, input, options, handle)
                           : dabke_allgather_into_async(name, input, output, options, handle);
}
dabke_status alltoall(const char* name, const DLTensor* input, const DLTensor* output,
                      const dabke_options* options, dabke_handle** handle) {
  return output == nullptr ? dabke_alltoall_async(name, input, options, handle)
                           : dabke_alltoall_into_async(name, input, output, options, handle);
}
dabke_status grouped_allgather(const char* const* names, const DLTensor* const* inputs,
                               const DLTensor* const* outputs, std::size_t count,
                               const dabke_options* options, dabke_handle** handle) {
  if (outputs != nullptr) throw ArgumentError("a grouped allgather allocates its outputs itself; pass none");
  return dabke_grouped_allgather_async(names, inputs, count, options, handle);
}

Handle handle_of(dabke_handle* handle, Tensors tensors, nb::handle result) {
  return {std::make_shared<const Operation>(handle, std::move(tensors)), nb::borrow(result)};
}

dabke_options with_wait(const Options& options, bool wait_follows) {
  dabke_options c = *options.c();
  c.wait_follows = wait_follows ? 1 : 0;
  return c;
}

/// Also sets the legacy default stream for tensors that were exported by DLPack, unless the caller names a
/// stream or an event. It is the stream of a __dlpack__ call without a stream.
dabke_options with_wait(const Options& options, bool wait_follows, const Tensors& tensors) {
  dabke_options c = with_wait(options, wait_follows);
  const bool is_exported =
      std::ranges::any_of(tensors, [](const auto& one) { return one->is_behind_legacy_stream(); });
  if (is_exported && c.stream == nullptr && c.ready_event == nullptr)
    c.stream = reinterpret_cast<void*>(kLegacyStream);
  return c;
}

/// Memory for a result like `input`, made by `make`, a function of the package.
nb::object made_like(nb::handle make, nb::handle input, const std::shared_ptr<const Tensor>& tensor) {
  const bool is_plain = std::string_view(Py_TYPE(input.ptr())->tp_name) == "numpy.ndarray";
  return make(is_plain ? nb::borrow(input) : nb::cast(TensorObject{tensor}));
}

bool is_maker(nb::handle output) { return PyFunction_Check(output.ptr()) != 0; }

/// Submits one tensor. `output` is memory, a function that makes it, or None. `result` is the handle's
/// result; None: the output.
template <SubmitOne submit>
Handle submit_one(std::string_view collective, nb::str name, nb::handle input, nb::handle output,
                  const Options& options, nb::handle result, bool wait_follows) {
  free_abandoned_operations();
  const char* const text = utf8_of(name, std::string(collective) + ": the name");
  constexpr bool kMakesOutputs =
      submit == &allgather || submit == &alltoall || submit == &dabke_reducescatter_async;
  nb::object given = nb::borrow(output);
  Tensors tensors;
  tensors.reserve(2);
  or_refuse({collective, text, options.c()->process_set}, [&] {
    tensors.push_back(tensor_of(input, given.is_none() && !kMakesOutputs));
    if (is_maker(given)) given = made_like(given, input, tensors.front());
    if (!given.is_none()) tensors.push_back(tensor_of(given, true));
  });
  const dabke_options c = with_wait(options, wait_follows, tensors);
  dabke_handle* handle = nullptr;
  check(submit(text, &tensors.front()->dl(), given.is_none() ? nullptr : &tensors.back()->dl(), &c, &handle));
  note_submit();
  return handle_of(handle, std::move(tensors), result.is_none() ? given : result);
}

/// Submits several tensors as a group. `outputs` is a list, a function that makes one output, or None.
template <SubmitGroup submit>
Handle submit_group(std::string_view collective, nb::list names, nb::list inputs, nb::object outputs,
                    const Options& options, nb::handle result, bool wait_follows) {
  free_abandoned_operations();
  const std::size_t count = inputs.size();
  const std::vector<const char*> texts = all_utf8_of(names, std::string(collective) + ": a name");
  const bool in_place = outputs.is_none() && submit == &dabke_grouped_allreduce_async;
  Tensors tensors;
  tensors.reserve(2 * count);
  or_refuse({collective, texts.size() > 1 ? texts.front() : "", options.c()->process_set}, [&] {
    if (names.size() != count || (nb::isinstance<nb::list>(outputs) && nb::len(outputs) != count)) {
      throw ArgumentError("a group needs as many names and outputs as inputs");
    }
    for (const nb::handle input : inputs) tensors.push_back(tensor_of(input, in_place));
    if (is_maker(outputs)) {
      nb::list made;
      for (std::size_t i = 0; i < count; ++i) made.append(made_like(outputs, inputs[i], tensors[i]));
      outputs = made;
    }
    if (!outputs.is_none()) {
      for (const nb::handle output : nb::list(outputs)) tensors.push_back(tensor_of(output, true));
    }
  });
  std::vector<const DLTensor*> views;
  for (const auto& tensor : tensors) views.push_back(&tensor->dl());
  const dabke_options c = with_wait(options, wait_follows, tensors);
  dabke_handle* handle = nullptr;
  check(submit(texts.data(), views.data(), outputs.is_none() ? nullptr : views.data() + count, count, &c,
               &handle));
  note_submit();
  return handle_of(handle, std::move(tensors), result.is_none() ? outputs : result);
}

template <SubmitOne submit>
void bind_one(nb::module_& module, const char* name) {
  const auto call = [collective = std::string_view(name)](nb::str text, nb::handle input, nb::handle output,
                                                          const Options& options, nb::handle result,
                                                          bool wait_follows) {
    return submit_one<submit>(collective, text, input, output, options, result, wait_follows);
  };
  module.def(name, call, nb::arg("name"), nb::arg("input").none(), nb::arg("output").none(),
             nb::arg("options"), nb::arg("result").none() = nb::none(), nb::arg("wait_follows") = false,
             "Submits a tensor. `output` is memory, or a function that makes memory like the input; None: in "
             "place, or memory of the runtime. `result` is the handle's result; None: the output.");
}
template <SubmitGroup submit>
void bind_group(nb::module_& module, const char* name) {
  const auto call = [collective = std::string_view(name).substr(std::strlen("grouped_"))](
                        nb::typed<nb::list, nb::str> names, nb::typed<nb::list, nb::any> inputs,
                        nb::object outputs, const Options& options, nb::handle result, bool wait_follows) {
    return submit_group<submit>(collective, names, inputs, outputs, options, result, wait_follows);
  };
  module.def(name, call, nb::arg("names"), nb::arg("inputs"), nb::arg("outputs").none(), nb::arg("options"),
             nb::arg("result").none() = nb::none(), nb::arg("wait_follows") = false,
             "Submits several tensors that are ordered together. `outputs` is a list, a function that makes "
             "an output like its input, or None.");
}

using SubmitMessage = dabke_status (*)(const char*, const DLTensor*, std::int32_t, const dabke_options*,
                                       dabke_handle**);

/// Submits one end of a message.
template <SubmitMessage submit>
Handle submit_message(nb::str name, nb::handle tensor, std::int32_t peer, const Options& options,
                      std::int64_t tag, nb::handle result, bool wait_follows) {
  free_abandoned_operations();
  const char* const text = utf8_of(name, "the name");
  Tensors tensors{tensor_of(tensor, submit == &dabke_recv_async)};
  dabke_options c = with_wait(options, wait_follows, tensors);
  c.tag = tag;
  dabke_handle* handle = nullptr;
  check(submit(text, &tensors.front()->dl(), peer, &c, &handle));
  note_submit();
  return handle_of(handle, std::move(tensors), result.is_none() ? tensor : result);
}

template <SubmitMessage submit>
void bind_message(nb::module_& module, const char* name) {
  module.def(name, &submit_message<submit>, nb::arg("name"), nb::arg("tensor").none(), nb::arg("peer"),
             nb::arg("options"), nb::arg("tag") = 0, nb::arg("result").none() = nb::none(),
             nb::arg("wait_follows") = false,
             "Submits one end of a message between this rank and `peer`, a rank of the world.");
}

Handle barrier(const Options& options, bool wait_follows) {
  const dabke_options c = with_wait(options, wait_follows);
  dabke_handle* handle = nullptr;
  check(dabke_barrier_async(&c, &handle));
  note_submit();
  return handle_of(handle, {}, nb::none());
}
Handle join(const Options& options) {
  dabke_handle* handle = nullptr;
  check(dabke_join_async(options.c(), &handle));
  note_submit();
  return handle_of(handle, {}, nb::none());
}

}  // namespace

std::optional<dabke_collective> collective_of(std::string_view name) {
  for (int number = 0;; ++number) {
    const auto collective = static_cast<dabke_collective>(number);
    const std::string_view known = dabke_collective_name(collective);
    if (known == "unknown") return std::nullopt;
    if (known == name) return collective;
  }
}

void bind_collectives(nb::module_& module) {
  bind_one<&dabke_allreduce_async>(module, "allreduce");
  bind_one<&allgather>(module, "allgather");
  bind_one<&dabke_broadcast_async>(module, "broadcast");
  bind_one<&alltoall>(module, "alltoall");
  bind_one<&dabke_reducescatter_async>(module, "reducescatter");
  bind_group<&dabke_grouped_allreduce_async>(module, "grouped_allreduce");
  bind_group<&grouped_allgather>(module, "grouped_allgather");
  bind_group<&dabke_grouped_reducescatter_async>(module, "grouped_reducescatter");
  bind_message<&dabke_send_async>(module, "send");
  bind_message<&dabke_recv_async>(module, "recv");
  module.def("barrier", &barrier, nb::arg("options"), nb::arg("wait_follows") = false, "Submits a barrier.");
  module.def("join", &join, nb::arg("options"), "Declares that this rank has no more data.");
  module.def("abandoned_operations", &abandoned_operations,
             "The number of pending operations whose handles have been dropped.");
}

}  // namespace dabke::python
