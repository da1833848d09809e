#include "program.h"

#include <functional>
#include <numeric>

namespace storm {

std::vector<int> list_of(Ranks ranks) {
  std::vector<int> list;
  for (int rank = 0; rank < kMostRanks; ++rank) {
    if (has(ranks, rank)) list.push_back(rank);
  }
  return list;
}

std::string text_of(Ranks ranks) {
  std::string text;
  for (const int rank : list_of(ranks)) text += (text.empty() ? "" : ",") + std::to_string(rank);
  return text;
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::allreduce: return "allreduce";
    case Kind::allgather: return "allgather";
    case Kind::broadcast: return "broadcast";
    case Kind::alltoall: return "alltoall";
    case Kind::reducescatter: return "reducescatter";
    case Kind::barrier: return "barrier";
    case Kind::message: return "message";
  }
  return "?";
}

std::int64_t elements_of(std::span<const std::int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string Call::describe() const {
  std::string text = name_of(kind);
  if (reduces(kind)) text += std::string(" ") + dabke_reduce_op_name(op);
  if (has_root(kind)) text += " from " + std::to_string(root);
  if (is_from_any) text += " (from any)";
  if (kind == Kind::message) text += " to " + std::to_string(to) + " with tag " + std::to_string(tag);
  for (const Tensor& tensor : tensors) {
    text += std::string(" ") + row_of(tensor.dtype).name + "[";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i)
      text += (i == 0 ? "" : ",") + std::to_string(tensor.shape[i]);
    text += "]";
  }
  if (form == Form::grouped) text += " grouped";
  if (form == Form::members) text += " as members";
  if (prescale != 1) text += " prescale " + std::to_string(prescale);
  if (postscale != 1) text += " postscale " + std::to_string(postscale);
  if (compression != DABKE_COMPRESSION_DEFAULT) text += " compression " + std::to_string(compression);
  if (numbers != Numbers::small) text += numbers == Numbers::any ? " of any numbers" : " of extreme numbers";
  if (is_on_device) text += " on devices";
  text += " by ranks " + text_of(takers);
  for (const Call& follower : followers)
    text += ", then call " + std::to_string(follower.id) + ": " + follower.describe();
  if (odd != 0)
    text += ", ranks " + text_of(odd) +
            (ending == Ending::no_output ? " refuse outputs"
             : ending == Ending::misfit  ? " give too long outputs"
                                         : " differ");
  return text;
}

}  // namespace storm
