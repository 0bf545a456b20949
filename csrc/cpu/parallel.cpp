#include "cpu/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#if defined(__APPLE__)
#include <dispatch/dispatch.h>
#else
#include <unistd.h>
#include <condition_variable>
#include <deque>
#include <mutex>
#endif
#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace mlx_pooling::cpu {

namespace {

constexpr double kBytesPerNanosecond = 16; // that a thread moves
// Chunks for each thread: so many that a thread whose core is taken away for a
// while leaves the rest to the others.
constexpr int64_t kChunksPerThread = 4;

// Chunks that whichever thread has time takes, each from a place of its own on:
// a core's cache may still hold what the call before did there. Nobody waits
// for a thread that has not taken one: on a busy machine it may not run for a
// long while. When it does, all are taken, and their body, which may be gone,
// is not touched.
class Chunks {
 public:
  Chunks(
      const std::function<void(int64_t, int64_t)>& body,
      int64_t count,
      int64_t threads)
      : body_(body),
        count_(count),
        threads_(threads),
        taken_(std::min(count, threads * kChunksPerThread)),
        left_(static_cast<int>(taken_.size())) {}

  void take_all(int64_t thread) {
    int64_t chunks = taken_.size();
    auto own = chunks * (thread % threads_) / threads_;
    for (int64_t i = 0; i < chunks; ++i) {
      auto chunk = (own + i) % chunks;
      auto& taken = taken_[chunk];
      // Looking first, since others look, too: a write would take it from them.
      if (taken.load(std::memory_order_relaxed) || taken.exchange(true)) {
        continue;
      }
      try {
        body_(count_ * chunk / chunks, count_ * (chunk + 1) / chunks);
      } catch (...) {
        if (!failed_.exchange(true)) {
          error_ = std::current_exception();
        }
      }
      if (--left_ == 0) {
        left_.notify_one();
      }
    }
  }

  void wait() {
    for (int spin = 0; left_ > 0 && spin < kSpins; ++spin) {
      std::this_thread::yield();
    }
    for (int left = left_; left > 0; left = left_) {
      left_.wait(left);
    }
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

 private:
  // Shorter than sleeping and waking up.
  static constexpr int kSpins = 100;

  const std::function<void(int64_t, int64_t)>& body_;
  const int64_t count_;
  const int64_t threads_;
  std::vector<std::atomic<bool>> taken_; // each of the chunks
  std::atomic<int> left_;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

#if defined(__APPLE__)

// The system's threads, of which no more than `threads` take chunks.
void share(const std::shared_ptr<Chunks>& chunks, int64_t threads) {
  dispatch_apply_f(
      threads, DISPATCH_APPLY_AUTO, chunks.get(),
      [](void* chunks, size_t thread) {
        static_cast<Chunks*>(chunks)->take_all(thread);
      });
}

#else

#if defined(__linux__)

// Keeps a thread off the CPU that the calling one runs on, unless there is no
// other. Linux does not look for an idle one on a machine that was busy: it
// would leave the thread behind its caller, for milliseconds.
class Apart {
 public:
  void keep(pthread_t thread) {
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) {
      return;
    }
    CPU_CLR(sched_getcpu(), &cpus);
    if (CPU_COUNT(&cpus) == 0 || CPU_EQUAL(&cpus, &kept_to_)) {
      return;
    }
    if (pthread_setaffinity_np(thread, sizeof(cpus), &cpus) == 0) {
      kept_to_ = cpus;
    }
  }

 private:
  cpu_set_t kept_to_{};
};

#else

class Apart {
 public:
  void keep(std::thread::native_handle_type) {}
};

#endif

// Threads that help with chunks. After some they look for more for a while
// before they sleep: the next operation is often only microseconds away, and a
// thread takes longer than that to wake.
class Helpers {
 public:
  // With fewer, where the system gives no more.
  explicit Helpers(int threads) {
    try {
      for (; threads_ < threads; ++threads_) {
        std::thread helper([this, thread = threads_ + 1] { help(thread); });
        last_ = helper.native_handle();
        helper.detach();
      }
    } catch (const std::exception&) {
    }
  }

  void share(const std::shared_ptr<Chunks>& chunks, int64_t helpers) {
    if (getpid() != process_) {
      return; // a fork has no such threads
    }
    helpers = std::min(helpers, threads_);
    {
      std::lock_guard lock(mutex_);
      if (threads_ == 1) { // of several, some find another CPU
        apart_.keep(last_);
      }
      waiting_.insert(waiting_.end(), helpers, chunks);
      count_ += helpers;
    }
    for (int64_t i = 0; i < helpers; ++i) {
      wake_.notify_one();
    }
  }

 private:
  // Of some tenths of a microsecond each, if nothing else wants the core.
  static constexpr int kLooks = 400;

  void help(int64_t thread) {
    for (;;) {
      for (int look = 0; count_ == 0 && look < kLooks; ++look) {
        std::this_thread::yield();
      }
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return !waiting_.empty(); });
      auto chunks = std::move(waiting_.front());
      waiting_.pop_front();
      --count_;
      lock.unlock();
      chunks->take_all(thread);
    }
  }

  const pid_t process_ = getpid();
  int64_t threads_ = 0;
  std::thread::native_handle_type last_{};
  Apart apart_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Chunks>> waiting_;
  std::atomic<int64_t> count_{0}; // of those
};

// Never destroyed: threads of MLX may still use it while the process exits.
Helpers& helpers() {
  static auto* helpers = new Helpers(max_threads() - 1);
  return *helpers;
}

void share(const std::shared_ptr<Chunks>& chunks, int64_t threads) {
  helpers().share(chunks, threads - 1);
  chunks->take_all(0);
}

#endif

} // namespace

int max_threads() {
  static const int threads = [] {
    int hardware = std::max(1u, std::thread::hardware_concurrency());
    const char* wanted = std::getenv("MLX_POOLING_NUM_THREADS");
    int number = wanted ? std::atoi(wanted) : 0;
    return number > 0 ? number : hardware;
  }();
  return threads;
}

int64_t threads_for(int64_t bytes) {
  return std::clamp<int64_t>(bytes / kBytesPerThread, 1, max_threads());
}

int64_t bytes_moved_in(double nanoseconds) {
  return static_cast<int64_t>(kBytesPerNanosecond * nanoseconds);
}

void parallel_for(
    int64_t count,
    int64_t bytes,
    const std::function<void(int64_t, int64_t)>& body) {
  auto threads = std::min(count, threads_for(bytes));
  if (threads <= 1) {
    body(0, count);
    return;
  }
  auto chunks = std::make_shared<Chunks>(body, count, threads);
  share(chunks, threads);
  chunks->wait();
}

} // namespace mlx_pooling::cpu
