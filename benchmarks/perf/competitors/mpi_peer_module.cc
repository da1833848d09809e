// Compiled once for each MPI.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <climits>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "benchmarks/perf/competitors/mpi_peer.h"
#include "runtime/modules/build_id.h"

namespace dabke::perf {
namespace {

// MPI has no portable name for these types.
constexpr auto mpi_f16 = [] { return MPI_DATATYPE_NULL; };
constexpr auto mpi_bf16 = [] { return MPI_DATATYPE_NULL; };

MPI_Datatype mpi_dtype(DType dtype) {
  switch (dtype) {
#define X(id, name, type, mpi, ...) \
  case DType::id: return mpi;
    DABKE_DTYPES(X)
#undef X
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op mpi_op(const Call& call) {
  const bool logical = call.dtype == DType::b8;
  switch (call.op) {
    case ReduceOp::sum: return logical ? MPI_LOR : MPI_SUM;
    case ReduceOp::min: return logical ? MPI_LAND : MPI_MIN;
    case ReduceOp::max: return logical ? MPI_LOR : MPI_MAX;
    case ReduceOp::product: return logical ? MPI_LAND : MPI_PROD;
    case ReduceOp::bitwise_and: return logical ? MPI_LAND : MPI_BAND;
    case ReduceOp::bitwise_or: return logical ? MPI_LOR : MPI_BOR;
    case ReduceOp::bitwise_xor: return logical ? MPI_LXOR : MPI_BXOR;
    default: return MPI_OP_NULL;
  }
}

Status to_status(const char* what, int code) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {Code::transport, fmt::format("{}: {}", what, text)};
}

class Peer final : public MpiPeer {
 public:
  std::string library() const override {
#ifdef OPEN_MPI
    return fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#else
    return fmt::format("MPICH {}", MPICH_VERSION);
#endif
  }
  Status start(bool any_thread) override {
    const int wanted = any_thread ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    int got = MPI_THREAD_SINGLE;
    DABKE_RETURN_IF_ERROR(to_status("MPI_Init_thread", MPI_Init_thread(nullptr, nullptr, wanted, &got)));
    if (got < wanted) {
      return {Code::unsupported,
              fmt::format("{} gives no MPI_THREAD_MULTIPLE; use --mpi-threads single", library())};
    }
    return to_status("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  }
  bool can_run(const Call& call) const override {
    return call.elements <= INT_MAX && call.output_elements <= INT_MAX &&
           mpi_dtype(call.dtype) != MPI_DATATYPE_NULL;
  }
  Status run(const Call& call) override {
    const MPI_Datatype dtype = mpi_dtype(call.dtype);
    const int elements = static_cast<int>(call.elements);
    const int part = static_cast<int>(call.part());
    const MPI_Comm world = MPI_COMM_WORLD;
    switch (call.kind) {
      case CollectiveKind::allreduce:
        return to_status("MPI_Allreduce", MPI_Allreduce(call.in_place() ? MPI_IN_PLACE : call.input,
                                                        call.output, elements, dtype, mpi_op(call), world));
      case CollectiveKind::broadcast:
        if (call.rank == 0 && !call.in_place()) std::memcpy(call.output, call.input, call.input_bytes());
        return to_status("MPI_Bcast", MPI_Bcast(call.output, elements, dtype, 0, world));
      case CollectiveKind::allgather:
        return to_status("MPI_Allgather",
                         MPI_Allgather(call.input, part, dtype, call.output, part, dtype, world));
      case CollectiveKind::reducescatter:
        return to_status("MPI_Reduce_scatter_block",
                         MPI_Reduce_scatter_block(call.input, call.output, part, dtype, mpi_op(call), world));
      case CollectiveKind::alltoall:
        return to_status("MPI_Alltoall",
                         MPI_Alltoall(call.input, part, dtype, call.output, part, dtype, world));
      default: return to_status("MPI_Barrier", MPI_Barrier(world));
    }
  }
  void finish() override { MPI_Finalize(); }
};

}  // namespace
}  // namespace dabke::perf

extern "C" __attribute__((visibility("default"))) dabke::perf::MpiPeer* dabke_perf_mpi(const char* build_id) {
  static dabke::perf::Peer peer;
  return std::string_view(build_id) == dabke::modules::kBuildId ? &peer : nullptr;
}
