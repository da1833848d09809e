#include "runtime/modules/mpi_session.h"

#include <fmt/format.h>

namespace dabke::modules {

Status mpi_can_serve(const MpiSession* session, std::string_view setting) {
  if (session == nullptr) {
    return {Code::unsupported,
            fmt::format("{}: MPI did not start this job, so it cannot reach its ranks; start it with mpirun "
                        "instead of dabkerun (and leave DABKE_RANK unset), or leave the variable unset",
                        setting)};
  }
  if (session->any_thread()) return {};
  return {Code::unsupported, fmt::format("{}: the application initialised MPI with {}, but Dabke calls MPI "
                                         "on its own thread; call MPI_Init_thread with MPI_THREAD_MULTIPLE, "
                                         "or call dabke_init before MPI_Init, or leave the variable unset",
                                         setting, session->thread_level())};
}

}  // namespace dabke::modules
