// The C++ wrapper over the installed library's API, in a job of one rank.
#include "dabke/dabke.hpp"
#include "dabke/elastic.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>

TEST_CASE("a session begins and ends a job") {
  {
    const dabke::Session session;
    CHECK(dabke::rank() == 0);
    CHECK(dabke::size() == 1);
    CHECK_THROWS_AS(dabke::Session(), dabke::Error);
  }
  CHECK(dabke::rank() == -1);
}

TEST_CASE("a program may start its job over an allgather of its own") {
  int calls = 0;
  const auto alone = [&](std::span<const std::byte> mine, std::span<std::byte> all) {
    ++calls;
    std::ranges::copy(mine, all.begin());
  };
  {
    const dabke::Session session({.rank = 0, .size = 1, .exchange = alone});
    CHECK(calls == 2);
    CHECK(dabke::rank() == 0);
    std::vector<float> x{2};
    dabke::allreduce("x", x);
    CHECK(x[0] == 2);
  }
  const auto thrower = [&](std::span<const std::byte> mine, std::span<std::byte> all) {
    alone(mine, all);
    if (calls == 3) throw std::runtime_error("no way");
  };
  CHECK_THROWS_WITH(dabke::Session({.exchange = thrower}), "no way");
  CHECK(calls == 4);
  CHECK(dabke::rank() == -1);
  CHECK_THROWS_AS(dabke::Session({.rank = 0, .size = 1}), dabke::Error);
}

TEST_CASE("a collective works on any contiguous range") {
  const dabke::Session session;
  std::vector<float> vector{1, 2, 3};
  dabke::allreduce("vector", vector, {.op = DABKE_SUM, .postscale_factor = 2});
  CHECK(vector == std::vector<float>{2, 4, 6});
  std::array<std::int64_t, 2> array{7, 8};
  dabke::broadcast("array", array);
  const std::vector<double> from{1.5};
  std::vector<double> to(1);
  dabke::allreduce("elsewhere", from, {}, to);
  CHECK(to == from);
  std::vector<float> empty;
  dabke::allreduce("empty", empty);
}

TEST_CASE("a handle gives outputs of its element type and shape") {
  const dabke::Session session;
  std::vector<std::int32_t> rows{1, 2, 3, 4, 5, 6};
  const dabke::Handle gathered = dabke::allgather("rows", dabke::Tensor(rows.data(), {2, 3}));
  CHECK(gathered.output().ndim == 2);
  CHECK(gathered.output().shape[0] == 2);
  CHECK(gathered.elements<std::int32_t>()[5] == 6);
  CHECK_THROWS_AS(gathered.elements<float>(), dabke::Error);
  const dabke::Handle exchanged =
      dabke::alltoall("rows", dabke::Tensor(rows.data(), {2, 3}), {.splits = {2}});
  CHECK(exchanged.received_splits()[0] == 2);
  const dabke::Handle scattered = dabke::reducescatter("rows", rows);
  CHECK(scattered.elements<std::int32_t>().size() == 6);
}

TEST_CASE("an allgather and an alltoall write where they are told") {
  const dabke::Session session;
  const std::vector<std::int32_t> rows{1, 2, 3};
  std::vector<std::int32_t> gathered(3), exchanged(3);
  dabke::allgather_into("rows", rows, gathered);
  CHECK(gathered == rows);
  const dabke::Handle handle = dabke::alltoall_into_async("rows", rows, exchanged, {.splits = {3}});
  CHECK(handle.wait());
  CHECK(exchanged == rows);
  CHECK(handle.received_splits()[0] == 3);
  dabke::alltoall_into("rows", rows, exchanged);
  dabke::allgather_into_async("rows", rows, gathered).wait();
  CHECK_THROWS_AS(dabke::allgather_into("rows", rows, {}), dabke::Error);
  std::vector<std::int32_t> longer(4);
  CHECK_THROWS_WITH(dabke::allgather_into("rows", rows, longer), Catch::Contains("int32 [4]"));
}

TEST_CASE("an output as DLPack outlives its handle and the job") {
  dabke::ManagedTensor kept;
  dabke::ManagedTensorVersioned versioned;
  {
    const dabke::Session session;
    const std::vector<double> rows{1, 2, 3};
    const dabke::Handle handle = dabke::allgather("rows", rows);
    kept = handle.dlpack();
    versioned = handle.dlpack_versioned();
    CHECK_THROWS_AS(handle.dlpack(1), dabke::Error);
  }
  CHECK(static_cast<double*>(kept->dl_tensor.data)[2] == 3);
  CHECK(versioned->version.major == DLPACK_MAJOR_VERSION);
  DLManagedTensor* const handed_on = kept.release();
  versioned.reset();
  CHECK(static_cast<double*>(handed_on->dl_tensor.data)[0] == 1);
  handed_on->deleter(handed_on);
}

TEST_CASE("a group has one handle") {
  const dabke::Session session;
  std::vector<float> a{1}, b{2, 3};
  const std::vector<std::string> names{"a", "b"};
  const std::vector<dabke::Tensor> tensors{a, b};
  dabke::grouped_allreduce_async(names, tensors, {.op = DABKE_SUM}).wait();
  CHECK(b[1] == 3);
  const dabke::Handle gathered = dabke::grouped_allgather_async(names, tensors);
  gathered.wait();
  CHECK(gathered.elements<float>(1).size() == 2);
  CHECK_THROWS_AS(dabke::grouped_allreduce_async({names.data(), 1}, tensors), dabke::Error);
}

TEST_CASE("barrier and join return, and errors carry status and text") {
  const dabke::Session session;
  dabke::barrier();
  CHECK(dabke::join() == 0);
  std::vector<float> x{1};
  try {
    dabke::broadcast("x", x, {.root_rank = 3});
    FAIL("no error");
  } catch (const dabke::Error& error) {
    CHECK(error.status() == DABKE_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(error.what(), Catch::Contains("root rank 3"));
  }
  CHECK_THROWS_AS(dabke::add_process_set({0}), dabke::Error);
}

TEST_CASE("memory of the allocator is there before the first job and across jobs, and works like any other") {
  std::vector<double, dabke::Allocator<double>> x(100'000, 1.5);
  CHECK(reinterpret_cast<std::uintptr_t>(x.data()) % 64 == 0);
  for (int job = 0; job < 2; ++job) {
    const dabke::Session session;
    dabke::allreduce("x", x, {.op = DABKE_SUM, .postscale_factor = 2});
    x.push_back(x.back());  // moves to other memory
  }
  CHECK(x.front() == 6);
  CHECK(x.size() == 100'002);
  CHECK_THROWS_AS((std::vector<char, dabke::Allocator<char>>(std::size_t{1} << 60)), dabke::Error);
  dabke_free(nullptr);
  dabke_free(&x);
  CHECK_THAT(dabke_last_error(), Catch::Contains("dabke_free") && Catch::Contains("was not allocated"));
}

TEST_CASE("freeing memory waits for the operations that use it") {
  const dabke::Session session;
  auto* const data = static_cast<float*>(dabke_alloc(4'000'000));
  REQUIRE(data != nullptr);
  std::fill_n(data, 1'000'000, 1.0f);
  std::vector<dabke::Handle> handles;
  for (int i = 0; i < 20; ++i)
    handles.push_back(dabke::allreduce_async("x" + std::to_string(i), dabke::Tensor(data, {1'000'000})));
  dabke_free(data);
  for (const dabke::Handle& handle : handles) CHECK(handle.poll());
}

TEST_CASE("steps since a commit of an elastic state count once, if ranks are lost in the next sync too") {
  const dabke::Session session;
  const auto mark = [](int steps) {
    for (int i = 0; i < steps; ++i) dabke::mark_step(0);
  };
  int value = 1;
  dabke::elastic::State state;
  state.add(value);
  mark(4);
  state.sync(dabke::current_epoch());
  CHECK(state.lost_steps() == 1);
  mark(3);
  state.commit();
  mark(2);
  CHECK(state.lost_steps() == 3);
  value = 7;
  state.restore();
  CHECK(value == 1);
  const bool is_in_a_step = false;
  CHECK(state.lost_steps(is_in_a_step) == 0);
  mark(1);
  CHECK(state.lost_steps() == 2);
}

TEST_CASE("a NUL in a name or a path is refused, by every function that takes one") {
  const dabke::Session session;
  const std::string name("w\0a", 3);
  std::vector<float> x{1, 2};
  std::vector<float> y(2);
  const std::vector<std::string> names{"good", name};
  const std::vector<dabke::Tensor> both{x, y};
  const std::vector<std::function<void()>> calls{
      [&] { dabke::allreduce(name, x); },
      [&] { (void)dabke::allreduce_async(name, x); },
      [&] { dabke::broadcast(name, x); },
      [&] { (void)dabke::broadcast_async(name, x); },
      [&] { (void)dabke::reducescatter(name, x); },
      [&] { (void)dabke::reducescatter_async(name, x); },
      [&] { (void)dabke::allgather(name, x); },
      [&] { (void)dabke::allgather_async(name, x); },
      [&] { dabke::allgather_into(name, x, y); },
      [&] { (void)dabke::allgather_into_async(name, x, y); },
      [&] { (void)dabke::alltoall(name, x); },
      [&] { (void)dabke::alltoall_async(name, x); },
      [&] { dabke::alltoall_into(name, x, y); },
      [&] { (void)dabke::alltoall_into_async(name, x, y); },
      [&] { (void)dabke::grouped_allreduce_async(names, both); },
      [&] { (void)dabke::grouped_allgather_async(names, both); },
      [&] { (void)dabke::grouped_reducescatter_async(names, both); },
      [&] { dabke::start_timeline(name); },
      [&] { const dabke::Span span(name); },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CAPTURE(i);
    try {
      calls[i]();
      FAIL_CHECK("it was taken");
    } catch (const dabke::Error& error) {
      CHECK(error.status() == DABKE_ERROR_INVALID_ARGUMENT);
      CHECK_THAT(error.what(), Catch::Matchers::Contains("'w\\0...' contains a NUL character"));
    }
  }
  CHECK(x == std::vector<float>{1, 2});
}
