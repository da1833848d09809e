#include "bindings/python/core/options.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "bindings/python/core/text.h"

namespace dabke::python {

void bind_options(nb::module_& module) {
  constexpr dabke_options kDefaults = DABKE_OPTIONS_INIT;
  nb::class_<Options>(module, "Options", "The options of a collective, for any number of submits.")
      .def(
          "__init__",
          [](Options* self, int process_set, int op, int root_rank, double prescale_factor,
             double postscale_factor, int compression, int priority,
             std::optional<std::vector<std::int64_t>> splits, nb::str group, unsigned group_size,
             std::uintptr_t stream, std::uintptr_t ready_event, std::int64_t device,
             std::int64_t call_sequence) {
            new (self) Options;
            dabke_options& c = self->options_;
            c.process_set = process_set;
            c.op = static_cast<dabke_reduce_op>(op);
            c.root_rank = root_rank;
            c.prescale_factor = prescale_factor;
            c.postscale_factor = postscale_factor;
            c.compression = static_cast<dabke_compression>(compression);
            c.priority = priority;
            if (splits) {
              self->splits_ = std::move(*splits);
              static constexpr std::int64_t kNoSplits = 0;  // not null, which means equal parts
              c.splits = self->splits_.empty() ? &kNoSplits : self->splits_.data();
              c.splits_count = self->splits_.size();
            }
            self->group_ = utf8_of(group, "the group's name");
            if (!self->group_.empty()) c.group = self->group_.c_str();
            c.group_size = group_size;
            c.stream = reinterpret_cast<void*>(stream);
            c.ready_event = reinterpret_cast<void*>(ready_event);
            c.device = device;
            c.call_sequence = call_sequence;
          },
          nb::kw_only(), nb::arg("process_set") = int{kDefaults.process_set},
          nb::arg("op") = int{kDefaults.op}, nb::arg("root_rank") = kDefaults.root_rank,
          nb::arg("prescale_factor") = kDefaults.prescale_factor,
          nb::arg("postscale_factor") = kDefaults.postscale_factor,
          nb::arg("compression") = int{kDefaults.compression}, nb::arg("priority") = kDefaults.priority,
          nb::arg("splits") = nb::none(), nb::arg("group") = "", nb::arg("group_size") = kDefaults.group_size,
          nb::arg("stream") = std::uintptr_t{0}, nb::arg("ready_event") = std::uintptr_t{0},
          nb::arg("device") = kDefaults.device, nb::arg("call_sequence") = kDefaults.call_sequence,
          "The defaults are those of DABKE_OPTIONS_INIT.")
      .def_prop_ro(
          "process_set", [](const Options& self) { return self.options_.process_set; }, "The id of the set.");
}

}  // namespace dabke::python
