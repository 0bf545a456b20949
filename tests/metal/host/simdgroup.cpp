#include "simdgroup.h"

namespace mlx_pooling::metal {

namespace {

constexpr size_t kStackBytes = 256 * 1024;

} // namespace

Simdgroup& simdgroup() {
  static Simdgroup group;
  return group;
}

std::string Simdgroup::run(
    uint32_t count, bool reverse, std::function<void(uint32_t lane)> thread) {
  if (!stacks_) {
    stacks_.reset(new char[kLanes * kStackBytes]);
  }
  thread_ = std::move(thread);
  error_.clear();
  is_running_ = true;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    lanes_[lane].state = State::inactive;
    if (lane < count) {
      start(lane);
    }
  }
  while (error_.empty() && resume_all(reverse)) {
    error_ = exchange_all();
  }
  is_running_ = false;
  return error_;
}

void Simdgroup::start(uint32_t lane) {
  auto& [state, context, value, mask] = lanes_[lane];
  getcontext(&context);
  context.uc_stack.ss_sp = stacks_.get() + lane * kStackBytes;
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = &scheduler_;
  makecontext(&context, enter, 0);
  state = State::ready;
}

void Simdgroup::enter() {
  auto& group = simdgroup();
  group.thread_(group.current_);
  group.lanes_[group.current_].state = State::inactive;
}

// Lets every lane go on until it shuffles or ends; whether any shuffles.
bool Simdgroup::resume_all(bool reverse) {
  bool any = false;
  for (uint32_t i = 0; i < kLanes && error_.empty(); ++i) {
    current_ = reverse ? kLanes - 1 - i : i;
    if (lanes_[current_].state != State::inactive) {
      swapcontext(&scheduler_, &lanes_[current_].context);
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
    auto& [state, context, value, mask] = lanes_[lane];
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
  swapcontext(&lane.context, &scheduler_);
  return lane.value;
}

void Simdgroup::abandon(const std::string& error) {
  error_ = error;
  setcontext(&scheduler_);
  __builtin_unreachable();
}

} // namespace mlx_pooling::metal
