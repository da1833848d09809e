#include "launcher/agent_protocol/dialling.h"

#include "runtime/base/hmac.h"
#include "runtime/links/process_identity.h"

namespace dabke::launcher {

Result<links::Handshake::Self> dialling_self(const std::string& job_id, const std::string& job_key,
                                             Rank number) {
  links::Handshake::Self self{.rank = number, .process = links::identity_of_this_process()};
  DABKE_RETURN_IF_ERROR(from_hex(job_id, self.job_id));
  DABKE_RETURN_IF_ERROR(from_hex(job_key, self.job_key));
  return self;
}

}  // namespace dabke::launcher
