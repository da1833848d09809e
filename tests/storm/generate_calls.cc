#include "generate_calls.h"

#include <algorithm>
#include <array>
#include <bit>

namespace storm {
namespace {

constexpr std::int64_t kMostBytes = 6 << 20;

bool any_is(const Call& call, bool (*is)(Dtype)) {
  return std::ranges::any_of(call.tensors, [&](const Tensor& tensor) { return is(tensor.dtype); });
}
bool is_bool(Dtype dtype) { return dtype == Dtype::b8; }
bool is_byte(Dtype dtype) { return row_of(dtype).bits == 8; }
bool is_no_float(Dtype dtype) { return !is_float(dtype); }

/// Names that something in the library, a file or a line of text could mistake for something else.
const std::vector<std::string>& odd_names() {
  static const std::vector<std::string> names{"barrier",
                                              "join",
                                              "add_process_set",
                                              "remove_process_set",
                                              "allreduce",
                                              " ",
                                              "%s%n{}{0}",
                                              "line\nbreak\ttab",
                                              "quote\"'\\",
                                              "größe/梯度/🙂",
                                              "\x01\x7f",
                                              std::string(300, 'n'),
                                              std::string(4000, 'N'),  // of 4096, with the text that is added
                                              "0"};
  return names;
}

}  // namespace

std::string CallMaker::common_name() {
  if (random_.chance(4)) return random_.pick(odd_names());
  return std::string(1, static_cast<char>('a' + random_.below(12)));
}

std::string CallMaker::name(int set) {
  const std::string common = common_name();
  return limits_.shares_names || set == 0 ? common : common + " of set " + std::to_string(set);
}

std::int64_t CallMaker::element_count() {
  const int kind = random_.below(200);
  if (kind < 8) return 0;
  if (kind < 120) return random_.between(1, 12);
  if (kind < 175) return random_.between(13, 400);
  if (kind < 194) return random_.between(400, 8000);
  if (kind < 198) return random_.between(8000, 100000);
  return random_.between(200000, 700000);
}

std::vector<std::int64_t> CallMaker::shape(Kind kind) {
  const std::int64_t count = element_count();
  if (!has_own_rows(kind) && kind != Kind::reducescatter && count == 1 && random_.chance(60)) return {};
  if (has_own_rows(kind)) return {random_.between(0, 4), std::max<std::int64_t>(count / 16, 1)};
  switch (random_.below(4)) {
    case 0: return {random_.between(1, 9), count / 8};
    case 1: return {count / 4, 2, random_.between(1, 2)};
    default: return {count};
  }
}

void CallMaker::choose_operation(Call& call) {
  call.op = random_.one_of(
      {DABKE_SUM, DABKE_SUM, DABKE_AVERAGE, DABKE_AVERAGE, DABKE_MIN, DABKE_MAX, DABKE_PRODUCT});
  if (!any_is(call, is_float) && random_.chance(40))
    call.op = random_.one_of({DABKE_BITWISE_AND, DABKE_BITWISE_OR, DABKE_BITWISE_XOR});
  if (call.op == DABKE_AVERAGE && any_is(call, is_bool)) call.op = DABKE_SUM;
}

/// Chooses powers of two, with which small_number() stays exact.
void CallMaker::choose_scales(Call& call) {
  if (any_is(call, is_bool) || !random_.chance(25)) return;
  const bool are_floats = !any_is(call, is_no_float);
  if (call.op == DABKE_PRODUCT && !are_floats) return;
  if (call.op == DABKE_AVERAGE && any_is(call, is_byte)) return;
  call.prescale = random_.one_of({1.0, 2.0, 0.5});
  call.postscale = random_.one_of({1.0, 2.0, 0.5, 0.0});
  if (are_floats && random_.chance(30)) call.prescale = random_.one_of({-1.0, 0.25, 0.0});
  if (are_floats && random_.chance(30)) call.postscale = random_.one_of({-1.0, 0.25});
  if (any_is(call, is_byte) && call.prescale == 2) call.postscale = std::min(call.postscale, 1.0);
}

void CallMaker::choose_numbers(Call& call) {
  const bool is_scaled = call.prescale != 1 || call.postscale != 1;
  if (is_scaled || !random_.chance(40)) return;
  const bool is_compressed = limits_.is_compressed || call.compression != DABKE_COMPRESSION_DEFAULT;
  call.numbers = random_.chance(50) && !is_compressed ? Numbers::extreme : Numbers::any;
}

Call CallMaker::call(int set, Ranks ranks) {
  Call call;
  call.id = ++calls_;
  call.set = set;
  call.takers = ranks;
  const int kind = random_.below(100);
  call.kind = kind < 55   ? Kind::allreduce
              : kind < 66 ? Kind::allgather
              : kind < 77 ? Kind::broadcast
              : kind < 86 ? Kind::reducescatter
              : kind < 94 ? Kind::alltoall
                          : Kind::barrier;
  if (std::popcount(ranks) > 1 && random_.chance(10)) call.kind = Kind::message;
  if (call.kind == Kind::barrier) {
    call.key = "barrier of all";  // a key that a tensor cannot have
    return call;
  }
  // Only these have a grouped call; a call of any kind can be a member of a group.
  const bool can_group =
      call.kind == Kind::allreduce || call.kind == Kind::allgather || call.kind == Kind::reducescatter;
  const int form = random_.below(100);
  if (can_group && form < 15) call.form = Form::grouped;
  if (can_group && form >= 15 && form < 27) call.form = Form::members;
  const int count = call.form == Form::single    ? 1
                    : call.form == Form::grouped ? random_.between(1, 6)
                                                 : random_.between(2, 4);
  const Dtype common = static_cast<Dtype>(random_.below(kDtypes));
  const bool is_mixed = random_.chance(40);
  const std::string first = name(set);
  for (int i = 0; i < count; ++i) {
    Tensor tensor;
    tensor.name = i == 0 ? first : first + "." + std::to_string(i);
    tensor.dtype = is_mixed             ? static_cast<Dtype>(random_.below(kDtypes))
                   : random_.chance(50) ? common
                                        : Dtype::f32;
    tensor.shape = shape(call.kind);
    while (elements_of(tensor.shape) * static_cast<std::int64_t>(size_of(tensor.dtype)) > kMostBytes)
      tensor.shape = shape(call.kind);
    call.tensors.push_back(tensor);
  }
  call.key = (call.form == Form::members ? "group " : "tensor ") + first;
  if (reduces(call.kind)) {
    choose_operation(call);
    if (call.kind == Kind::allreduce && random_.chance(8))
      call.compression =
          random_.one_of({DABKE_COMPRESSION_NONE, DABKE_COMPRESSION_FLOAT16, DABKE_COMPRESSION_BFLOAT16});
    choose_scales(call);
    choose_numbers(call);
  }
  if (call.kind == Kind::broadcast) {
    auto list = list_of(ranks);
    call.root = random_.pick(list);
  }
  if (call.kind == Kind::message) choose_ends(call, ranks);
  call.equal_splits = random_.chance(30);
  call.is_last = random_.chance(12);
  call.is_kept = !call.is_last && random_.chance(10);
  return call;
}

/// Makes the call a message between two of the ranks.
void CallMaker::choose_ends(Call& call, Ranks ranks) {
  auto list = list_of(ranks);
  call.root = random_.pick(list);
  std::erase(list, call.root);
  call.to = random_.pick(list);
  call.tag = random_.chance(50) ? 0 : random_.between(-1, 3);
  call.takers = 1U << call.root | 1U << call.to;
  if (random_.chance(30)) {
    call.is_from_any = true;
    call.tensors[0].name = "any " + std::to_string(call.id);  // no other rank sends a message of that name
  }
  call.key = "message " + std::to_string(call.root) + " " + std::to_string(call.to) + " " +
             std::to_string(call.tag) + " " + call.tensors[0].name;
}

void CallMaker::add_follower(Call& call, Ranks ranks) {
  if (call.form != Form::single || call.is_last || call.is_kept || call.kind == Kind::barrier) return;
  if (call.kind == Kind::message) return;
  Call follower = this->call(call.set, ranks);
  if (follower.form == Form::members || follower.kind == Kind::barrier || follower.kind == Kind::message)
    return;
  follower.is_last = follower.is_kept = false;
  for (std::size_t i = 0; i < follower.tensors.size(); ++i)
    follower.tensors[i].name = "after " + std::to_string(follower.id) + "." + std::to_string(i);
  follower.key = "tensor " + follower.tensors[0].name;
  call.followers.push_back(std::move(follower));
}

Call CallMaker::lonely(int set, Ranks of_set, Ranks takers) {
  Call call;
  call.id = ++calls_;
  call.set = set;
  call.takers = takers;
  call.tensors.push_back({"lonely " + std::to_string(call.id), Dtype::f32, {random_.between(1, 300)}});
  call.key = "tensor " + call.tensors[0].name;
  if (std::popcount(of_set) > 1 && random_.chance(40)) {  // a message of which only one end comes
    call.kind = Kind::message;
    choose_ends(call, of_set);
    call.takers = 1U << (random_.chance(50) ? call.root : call.to);
  }
  return call;
}

Call CallMaker::again(const Call& call) {
  Call copy = call;
  copy.id = ++calls_;
  for (Call& follower : copy.followers) follower = again(follower);
  return copy;
}

void CallMaker::make_odd(Call& call) {
  if (call.kind == Kind::barrier) return;
  const Ranks odd = random_.proper_part(call.takers);
  if (odd == 0) return;
  std::vector<Difference> can{Difference::dtype, Difference::shape};
  if (call.form == Form::single && call.kind != Kind::message) can.push_back(Difference::kind);
  if (reduces(call.kind)) {
    can.push_back(Difference::op);
    can.push_back(Difference::scale);
  }
  if (call.kind == Kind::broadcast) can.push_back(Difference::root);
  if (call.form == Form::grouped && call.tensors.size() > 1) can.push_back(Difference::count);
  if (call.form == Form::members && call.tensors.size() > 2) can.push_back(Difference::count);
  call.difference = random_.pick(can);
  call.odd = odd;
  call.ending = Ending::mismatch;
}

void CallMaker::refuse_outputs(Call& call) {
  if (!has_own_rows(call.kind) && call.kind != Kind::reducescatter) return;
  call.odd = call.takers & static_cast<Ranks>(random_.next());
  if (call.odd == 0) return;
  const bool can_give = has_own_rows(call.kind) && call.form == Form::single;
  call.ending = can_give && random_.chance(50) ? Ending::misfit : Ending::no_output;
}

Call odd_form_of(const Call& call, Ranks set) {
  Call odd = call;
  if (call.ending != Ending::mismatch) return odd;
  Tensor& tensor = odd.tensors.back();
  switch (call.difference) {
    case Difference::dtype: tensor.dtype = tensor.dtype == Dtype::i32 ? Dtype::i64 : Dtype::i32; break;
    case Difference::shape:
      if (tensor.shape.empty()) {
        tensor.shape = {1};
      } else if (tensor.shape.size() == 1 && !has_own_rows(call.kind)) {
        ++tensor.shape[0];
      } else {
        tensor.shape.push_back(2);
      }
      break;
    case Difference::op:
      odd.op = call.op == DABKE_SUM ? DABKE_AVERAGE : DABKE_SUM;
      if (any_is(call, is_bool)) {  // bools have no average
        odd.op = call.op;
        odd.postscale = 8;
      }
      break;
    case Difference::scale: odd.prescale = call.prescale + 1; break;
    case Difference::root: {
      const auto list = list_of(set);
      odd.root = list[0] == call.root ? list[1] : list[0];
      break;
    }
    case Difference::kind:
      odd.kind = call.kind == Kind::broadcast ? Kind::allreduce : Kind::broadcast;
      odd.op = DABKE_SUM;
      odd.root = std::countr_zero(set);
      break;
    case Difference::count: odd.tensors.pop_back(); break;
    case Difference::device: odd.is_on_device = false; break;
    case Difference::none: break;
  }
  return odd;
}

}  // namespace storm
