#include "bindings/python/core/options.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "bindings/python/core/text.h"

namespace dabke::python {

void bind_options(nb::module_& module) {
  nb::class_<Options>(module, "Options")
      .def(
          "__init__",
          [](Options* self, int process_set, int op, int root_rank, double prescale_factor,
             double postscale_factor, int compression, int priority,
             std::optional<std::vector<std::int64_t>> splits, nb::str group, unsigned group_size,
             std::uintptr_t stream, std::uintptr_t ready_event, std::int64_t device) {
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
              static constexpr std::int64_t kNoSplits = 0;  // null would mean equal parts
              c.splits = self->splits_.empty() ? &kNoSplits : self->splits_.data();
              c.splits_count = self->splits_.size();
            }
            self->group_ = utf8_of(group, "the group's name");
            if (!self->group_.empty()) c.group = self->group_.c_str();
            c.group_size = group_size;
            c.stream = reinterpret_cast<void*>(stream);
            c.ready_event = reinterpret_cast<void*>(ready_event);
            c.device = device;
          },
          nb::kw_only(), nb::arg("process_set") = int{DABKE_WORLD}, nb::arg("op") = int{DABKE_AVERAGE},
          nb::arg("root_rank") = 0, nb::arg("prescale_factor") = 1.0, nb::arg("postscale_factor") = 1.0,
          nb::arg("compression") = int{DABKE_COMPRESSION_DEFAULT}, nb::arg("priority") = 0,
          nb::arg("splits") = nb::none(), nb::arg("group") = "", nb::arg("group_size") = 0u,
          nb::arg("stream") = std::uintptr_t{0}, nb::arg("ready_event") = std::uintptr_t{0},
          nb::arg("device") = std::int64_t{-1})
      .def_prop_ro("process_set", [](const Options& self) { return self.options_.process_set; });
}

}  // namespace dabke::python
