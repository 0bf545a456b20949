// What shaders on the host call: at each access to memory, as thread sanitizer
// instruments it, and where lanes exchange words. Linked into each of them.

#include "reports.h"

#define UNWATCHED __attribute__((no_sanitize("thread")))

namespace {

Report report;
Exchange exchange;

} // namespace

#define REPORT(size)                                 \
  UNWATCHED void __tsan_read##size(const void* p) {  \
    report(p, size, size, Kind::read);               \
  }                                                  \
  UNWATCHED void __tsan_write##size(const void* p) { \
    report(p, size, size, Kind::write);              \
  }

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit(void*) {}

REPORT(1)
REPORT(2)
REPORT(4)
REPORT(8)
REPORT(16)

// Of types with less alignment: packed vectors, which have that of a quarter.
UNWATCHED void __tsan_read_range(const void* p, size_t size) {
  report(p, size, size < 4 ? 1 : size / 4, Kind::read);
}
UNWATCHED void __tsan_write_range(const void* p, size_t size) {
  report(p, size, size < 4 ? 1 : size / 4, Kind::write);
}
UNWATCHED void report_atomic(const void* p) {
  report(p, 4, 4, Kind::atomic);
}

UNWATCHED uint32_t exchange_words(uint32_t value, uint32_t mask) {
  return exchange(value, mask);
}

UNWATCHED void set_report(Report to) {
  report = to;
}
UNWATCHED void set_exchange(Exchange to) {
  exchange = to;
}
}
