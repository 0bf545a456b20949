#include "simdgroup.h"

#include <ucontext.h>

namespace mlx_pooling::metal {

namespace {

constexpr size_t kStackBytes = 256 * 1024;

// Not part of the function that set the place, which GCC forbids. Nor may it
// conclude what a function leaves alone that switches stacks: noipa.
[[noreturn, gnu::noinline, gnu::noipa]] void jump(void** place) {
  __builtin_longjmp(place, 1);
}

} // namespace

Simdgroup& simdgroup() {
  static Simdgroup group;
  return group;
}

std::string Simdgroup::run(
    uint32_t count, bool reverse, std::function<void(uint32_t lane)> thread) {
  thread_ = std::move(thread);
  error_.clear();
  is_running_ = true;
  if (!stacks_) {
    stacks_.reset(new char[kLanes * kStackBytes]);
    for (current_ = 0; current_ < kLanes; ++current_) {
      start(current_);
    }
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    lanes_[lane].state = lane < count ? State::ready : State::inactive;
  }
  while (error_.empty() && resume_all(reverse)) {
    error_ = exchange_all();
  }
  is_running_ = false;
  if (!error_.empty()) {
    stacks_.reset(); // lanes are in the middle of theirs
  }
  return error_;
}

// Lets the lane come to where it waits for its first thread.
[[gnu::noinline, gnu::noipa]] void Simdgroup::start(uint32_t lane) {
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stacks_.get() + lane * kStackBytes;
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr; // enter() never returns
  makecontext(&context, enter, 0);
  if (__builtin_setjmp(scheduler_.data()) == 0) {
    setcontext(&context);
  }
}

void Simdgroup::enter() {
  auto& group = simdgroup();
  for (;;) {
    pause();
    group.thread_(group.current_);
    group.lanes_[group.current_].state = State::inactive;
  }
}

// Goes on with the scheduler, and returns when that resumes the lane.
[[gnu::noinline, gnu::noipa]] void Simdgroup::pause() {
  auto& group = simdgroup();
  if (__builtin_setjmp(group.lanes_[group.current_].place.data()) == 0) {
    jump(group.scheduler_.data());
  }
}

[[gnu::noinline, gnu::noipa]] void Simdgroup::resume() {
  if (__builtin_setjmp(scheduler_.data()) == 0) {
    jump(lanes_[current_].place.data());
  }
}

// Lets every lane go on until it shuffles or ends; whether any shuffles.
bool Simdgroup::resume_all(bool reverse) {
  bool any = false;
  for (uint32_t i = 0; i < kLanes && error_.empty(); ++i) {
    current_ = reverse ? kLanes - 1 - i : i;
    if (lanes_[current_].state != State::inactive) {
      resume();
      any = any || lanes_[current_].state == State::waiting;
    }
  }
  return any && error_.empty();
}

std::string Simdgroup::exchange_all() {
  std::array<uint32_t, kLanes> given;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    given[lane] = lanes_[lane].value;
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    auto& [state, place, value, mask] = lanes_[lane];
    if (state != State::waiting) {
      continue;
    }
    auto other = lane ^ mask;
    if (other >= kLanes || lanes_[other].state == State::inactive) {
      return "shuffle with an inactive lane";
    }
    if (lanes_[other].mask != mask) {
      return "lanes in different shuffles";
    }
    value = given[other];
  }
  for (auto& lane : lanes_) {
    lane.state = lane.state == State::waiting ? State::ready : lane.state;
  }
  return "";
}

uint32_t Simdgroup::exchange(uint32_t value, uint32_t mask) {
  auto& lane = lanes_[current_];
  lane.value = value;
  lane.mask = mask;
  lane.state = State::waiting;
  pause();
  return lane.value;
}

void Simdgroup::abandon(const std::string& error) {
  error_ = error;
  jump(scheduler_.data());
}

} // namespace mlx_pooling::metal
