#include "base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace plumb {
namespace {

void default_handler(const char* file, int line, const char* expression) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, expression);
}

std::atomic<CheckHandler> g_handler{&default_handler};

}  // namespace

CheckHandler set_check_handler(CheckHandler handler) {
  return g_handler.exchange(handler != nullptr ? handler : &default_handler);
}

void check_failed(const char* file, int line, const char* expression) {
  g_handler.load()(file, line, expression);
  std::abort();
}

}  // namespace plumb
