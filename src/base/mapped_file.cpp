#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string>

namespace plumb {
namespace {

// What the signal handler may look at: a fixed table of atomics, because a handler can neither lock nor allocate. It is
// process-wide since the signal is.
struct Slot {
  std::atomic<std::uintptr_t> base{0};           // 0: free
  std::atomic<std::size_t> size{0};              // rounded up to whole pages
  std::atomic<std::uint64_t> fault{UINT64_MAX};  // offset of the first page that could not be read
};
constexpr std::size_t kSlots = 4096;
constinit Slot g_slots[kSlots];
constinit std::mutex g_slots_mutex;  // guards taking and freeing slots; the handler does not take it
struct sigaction g_previous;         // written once, before the handler can run
std::atomic<std::size_t> g_page_size{4096};

void forward(int signal, siginfo_t* info, void* context) {
  if ((g_previous.sa_flags & SA_SIGINFO) != 0) {
    g_previous.sa_sigaction(signal, info, context);
  } else if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    g_previous.sa_handler(signal);
  } else if (g_previous.sa_handler == SIG_IGN && info->si_code <= 0) {
    // Sent by a process and ignored before. A fault cannot be ignored: the kernel kills then, and so does the next
    // branch.
  } else {
    // The default action. The signal is blocked while this handler runs, so the one sent here acts on return, at the
    // interrupted instruction, and a core dump shows what first came: this thread may send itself any siginfo.
    std::signal(signal, SIG_DFL);
    if (::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::syscall(SYS_gettid), signal, info) != 0) ::raise(signal);
  }
}

void on_sigbus(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const std::size_t page = g_page_size.load(std::memory_order_relaxed);
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const bool is_fault = info->si_code > 0;  // a signal sent by a process has no address
  for (Slot& slot : g_slots) {
    if (!is_fault) break;
    const std::uintptr_t base = slot.base.load(std::memory_order_acquire);
    const std::size_t size = slot.size.load(std::memory_order_acquire);
    if (base == 0 || address < base || address - base >= size) continue;
    if (slot.base.load(std::memory_order_acquire) != base) continue;  // the slot changed hands between the two loads
    const std::uintptr_t first = address / page * page;
    // From the fault to the end of the mapping: what follows a truncation is gone as well, and one mapping per page
    // would run into the kernel's limit on their number.
    void* zeros = ::mmap(reinterpret_cast<void*>(first), base + size - first, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) break;
    std::uint64_t seen = slot.fault.load();
    while (first - base < seen && !slot.fault.compare_exchange_weak(seen, first - base)) {
    }
    errno = saved_errno;
    return;
  }
  errno = saved_errno;
  forward(signal, info, context);
}

void install_handler() {
  static const bool installed = [] {
    g_page_size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    // Read the old action first: the new handler may run as soon as it is set.
    ::sigaction(SIGBUS, nullptr, &g_previous);
    struct sigaction action = {};
    action.sa_sigaction = &on_sigbus;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    return ::sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  static_cast<void>(installed);
}

Slot* take_slot(std::uintptr_t base, std::size_t size) {
  const std::lock_guard lock(g_slots_mutex);
  for (Slot& slot : g_slots) {
    if (slot.base.load() != 0) continue;
    slot.fault.store(UINT64_MAX);
    slot.size.store(size, std::memory_order_release);
    slot.base.store(base, std::memory_order_release);
    return &slot;
  }
  return nullptr;
}

Error io_error(const char* what, const std::string& path) {
  const int code = errno;
  return fail(code == ENOENT || code == ENOTDIR ? ErrorCode::not_found : ErrorCode::io,
              std::string(what) + ": " + std::strerror(code), path);
}

}  // namespace

struct MappedFile::State {
  std::string path;
  int descriptor = -1;
  std::byte* base = nullptr;
  std::size_t size = 0;
  std::size_t mapped = 0;
  struct stat opened = {};
  Slot* slot = nullptr;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (slot != nullptr) {
      const std::lock_guard lock(g_slots_mutex);
      slot->base.store(0, std::memory_order_release);
    }
    if (base != nullptr) ::munmap(base, mapped);
    if (descriptor >= 0) ::close(descriptor);
  }
};

MappedFile::MappedFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
MappedFile::MappedFile(MappedFile&&) noexcept = default;
MappedFile& MappedFile::operator=(MappedFile&&) noexcept = default;
MappedFile::~MappedFile() = default;

Result<MappedFile> MappedFile::open(const std::string& path, const ParseLimits& limits) {
  auto state = std::make_unique<State>();
  state->path = path;
  // O_NONBLOCK: opening a pipe that nobody writes to must not hang before the type check refuses it.
  state->descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (state->descriptor < 0) return io_error("cannot open", path);
  if (::fstat(state->descriptor, &state->opened) != 0) return io_error("cannot stat", path);
  if (!S_ISREG(state->opened.st_mode)) {
    return fail(ErrorCode::invalid_argument, "is not a regular file", path, "",
                S_ISDIR(state->opened.st_mode) ? "a directory" : "a pipe, socket or device");
  }
  const auto size = static_cast<std::uint64_t>(state->opened.st_size);
  if (size > limits.max_file_bytes) {
    return fail(ErrorCode::limit_exceeded,
                "file is larger than the limit of " + std::to_string(limits.max_file_bytes) + " bytes", path, "",
                std::to_string(size));
  }
  if (size == 0) return MappedFile(std::move(state));
  install_handler();
  const std::size_t page = g_page_size.load();
  void* base = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, state->descriptor, 0);
  if (base == MAP_FAILED) return io_error("cannot map", path);
  state->base = static_cast<std::byte*>(base);
  state->size = size;
  state->mapped = (size + page - 1) / page * page;
  state->slot = take_slot(reinterpret_cast<std::uintptr_t>(base), state->mapped);
  if (state->slot == nullptr)
    return fail(ErrorCode::capacity, "too many files are mapped", path, "", std::to_string(kSlots));
  return MappedFile(std::move(state));
}

std::span<const std::byte> MappedFile::bytes() const { return {state_->base, state_->size}; }

const std::string& MappedFile::path() const { return state_->path; }

Status MappedFile::check() const {
  if (state_->slot == nullptr) return {};
  const std::uint64_t offset = state_->slot->fault.load();
  if (offset == UINT64_MAX) return {};
  struct stat now = {};
  const bool shorter = ::fstat(state_->descriptor, &now) == 0 && static_cast<std::uint64_t>(now.st_size) < state_->size;
  return fail(shorter ? ErrorCode::truncated : ErrorCode::io,
              shorter ? "file was cut short while it was mapped" : "a page of the mapped file could not be read",
              state_->path, "", "offset " + std::to_string(offset));
}

Status MappedFile::verify_unchanged() const {
  PLUMB_TRY(check());
  struct stat now = {};
  if (::fstat(state_->descriptor, &now) != 0) return io_error("cannot stat", state_->path);
  const struct stat& then = state_->opened;
  if (now.st_size != then.st_size) {
    return fail(now.st_size < then.st_size ? ErrorCode::truncated : ErrorCode::io,
                "size changed while the file was open", state_->path, "",
                std::to_string(now.st_size) + " bytes, was " + std::to_string(then.st_size));
  }
  if (now.st_mtim.tv_sec != then.st_mtim.tv_sec || now.st_mtim.tv_nsec != then.st_mtim.tv_nsec) {
    return fail(ErrorCode::io, "file was written to while it was open", state_->path);
  }
  return {};
}

void MappedFile::advise(Advice advice, std::uint64_t offset, std::uint64_t length) const {
  if (offset >= state_->size) return;
  length = std::min<std::uint64_t>(length, state_->size - offset);
  const std::uint64_t start = offset / g_page_size.load() * g_page_size.load();  // madvise wants whole pages
  constexpr int kAdvice[] = {MADV_NORMAL, MADV_SEQUENTIAL, MADV_RANDOM, MADV_WILLNEED, MADV_DONTNEED};
  static_cast<void>(::madvise(state_->base + start, offset + length - start, kAdvice[static_cast<int>(advice)]));
}

void release_mapped_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = (reinterpret_cast<std::uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto last = (reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size()) / page * page;
  if (first < last) static_cast<void>(::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED));
}

}  // namespace plumb
