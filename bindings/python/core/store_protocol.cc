// The protocol of the launcher's store, for a client in Python that is not in a job yet.
#include "runtime/store/store_protocol.h"

#include <string_view>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/text.h"
#include "runtime/store/job_secret.h"

namespace dabke::python {
namespace {

namespace nb = nanobind;
namespace protocol = store::protocol;

std::string_view view_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }
nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

}  // namespace

void bind_store_protocol(nb::module_& module) {
  const auto add = [&module](const char* name, std::string_view text) {
    module.attr(name) = nb::str(text.data(), text.size());
  };
  add("STORE_VALUE_PATH", protocol::kValuePath);
  add("STORE_COUNTER_PATH", protocol::kCounterPath);
  add("STORE_WAIT_PARAMETER", protocol::kWaitParameter);
  add("STORE_AMOUNT_PARAMETER", protocol::kAmountParameter);
  add("STORE_JOB_HEADER", protocol::kJobHeader);
  add("STORE_NONCE_HEADER", protocol::kNonceHeader);
  add("STORE_BODY_HEADER", protocol::kBodyHeader);
  add("STORE_PROOF_HEADER", protocol::kProofHeader);
  add("TAKEN_KEY_DIGIT", std::string_view(&store::kTakenKeyDigit, 1));
  module.attr("STORE_OK") = protocol::kOk;
  module.attr("STORE_NOT_THERE") = protocol::kNotThere;
  module.attr("STORE_LARGEST_VALUE") = protocol::kLargestValue;
  module.attr("STORE_LONGEST_WAIT_MS") = protocol::kLongestWait.count();

  module.def(
      "store_body_message", [](nb::bytes body) { return bytes_of(protocol::body_message(view_of(body))); },
      nb::arg("body"), "The message whose proof is the seal of a body.");
  module.def(
      "store_request_message",
      [](nb::str job, nb::str method, nb::str target, nb::str nonce, nb::str seal) {
        return bytes_of(protocol::request_message(utf8_of(job, "the job"), utf8_of(method, "the method"),
                                                  utf8_of(target, "the target"), utf8_of(nonce, "the nonce"),
                                                  utf8_of(seal, "the seal")));
      },
      nb::arg("job"), nb::arg("method"), nb::arg("target"), nb::arg("nonce"), nb::arg("seal"),
      "The message that the proof of a request covers. `target` is path and query, as sent.");
  module.def(
      "store_answer_message",
      [](nb::str nonce, int status, nb::bytes body) {
        return bytes_of(protocol::answer_message(utf8_of(nonce, "the nonce"), status, view_of(body)));
      },
      nb::arg("nonce"), nb::arg("status"), nb::arg("body"),
      "The message that the proof of an answer covers.");
}

}  // namespace dabke::python
