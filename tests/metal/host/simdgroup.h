#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace mlx_pooling::metal {

// Threads that wait for each other wherever they shuffle, on stacks of their
// own, one running at a time.
class Simdgroup {
 public:
  static constexpr uint32_t kLanes = 32;

  // Runs the first `count` lanes, the others being inactive. Returns what was
  // wrong; empty: nothing.
  std::string
  run(uint32_t count, bool reverse, std::function<void(uint32_t lane)> thread);

  // Called in a lane: what the lane gave whose number differs in `mask`.
  uint32_t exchange(uint32_t value, uint32_t mask);

  // Called in a lane: ends all.
  [[noreturn]] void abandon(const std::string& error);

  bool is_running() const {
    return is_running_;
  }

 private:
  enum class State { inactive, ready, waiting };
  // What __builtin_setjmp fills. The C library switches between stacks by
  // system calls, and under address sanitizer clears what that knows of a whole
  // stack.
  using Place = std::array<void*, 5>;

  struct Lane {
    State state = State::inactive;
    Place place;
    uint32_t value;
    uint32_t mask;
  };

  static void enter();
  static void pause();
  void start(uint32_t lane);
  void resume();
  bool resume_all(bool reverse);
  std::string exchange_all();

  std::array<Lane, kLanes> lanes_;
  std::unique_ptr<char[]> stacks_; // none: no lane has started
  Place scheduler_;
  uint32_t current_ = 0;
  std::function<void(uint32_t)> thread_;
  std::string error_;
  bool is_running_ = false;
};

// The only one that runs.
Simdgroup& simdgroup();

} // namespace mlx_pooling::metal
