// The checker of the conformance suite. Compiled into the test binary only.
#include "kernels/conformance/checker.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"

namespace plumb::kernels::conformance {
namespace {

constexpr std::uint64_t kGuard = 128;  // bytes around every operand: more than any vector or tile row is wide
constexpr std::uint32_t kPoison = 0x7FA00ABCU;

struct alignas(64) Line {
  std::array<std::uint32_t, 16> words;
};

struct Operand {
  std::string name;
  Access access;
  std::uint64_t offset;     // in the image
  std::uint64_t bytes;      // with max_rows
  std::uint64_t live;       // with rows
  std::uint64_t row_stride; // 0: not by rows
};

// The memory of a case: operands in a row with guards between them. Copying it copies a state.
class Image {
 public:
  explicit Image(const ShapeCase& c) : case_(&c) {
    std::uint64_t end = kGuard;
    ArgsBlob args = c.args;
    c.op->set_rows(args.data(), c.max_rows);
    c.op->operands(args.data(), [&](const OperandInfo& info, std::uint64_t&, SlotId) {
      Operand o{info.name, info.access, end, info.bytes, 0, 0};
      for (const auto& [first, second] : c.aliases) {
        if (o.name == second) o.offset = find(first).offset;
      }
      if (o.offset == end) {
        for (const std::string& name : c.misaligned) o.offset += o.name == name ? 1 : 0;
        end = (o.offset + o.bytes + kGuard + 63) / 64 * 64;
      }
      operands_.push_back(o);
    });
    const auto each_extent = [&](std::int32_t rows, auto&& use) {
      std::size_t i = 0;
      c.op->set_rows(args.data(), rows);
      c.op->operands(args.data(), [&](const OperandInfo& info, std::uint64_t&, SlotId) { use(operands_[i++], info.bytes); });
    };
    each_extent(c.rows, [](Operand& o, std::uint64_t bytes) { o.live = bytes; });
    each_extent(1, [](Operand& o, std::uint64_t bytes) { o.row_stride = bytes; });
    each_extent(2, [](Operand& o, std::uint64_t bytes) { o.row_stride = bytes - o.row_stride; });
    lines_.resize(end / 64 + 1);
    for (Line& line : lines_) line.words.fill(kPoison);
  }

  // The case's arguments with this image's addresses, for row `first` on.
  ArgsBlob bind(std::int32_t rows, std::int32_t first = 0) {
    ArgsBlob args = case_->args;
    case_->op->set_rows(args.data(), rows);
    std::size_t i = 0;
    case_->op->operands(args.data(), [&](const OperandInfo&, std::uint64_t& at, SlotId) {
      const Operand& o = operands_[i++];
      at = reinterpret_cast<std::uint64_t>(data()) + o.offset + o.row_stride * static_cast<std::uint64_t>(first);
    });
    return args;
  }

  // Scratch as it was: what a kernel left there is nobody's.
  void forget_scratch(const Image& start) {
    for (const Operand& o : operands_) {
      if (o.access == Access::scratch) std::memcpy(data() + o.offset, start.data() + o.offset, o.bytes);
    }
  }

  const std::vector<Operand>& operands() const { return operands_; }
  const Operand& find(const std::string& name) const {
    for (const Operand& o : operands_) {
      if (o.name == name) return o;
    }
    PLUMB_CHECK(!"an operand of that name");
    return operands_.front();
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(lines_.data()); }
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(lines_.data()); }
  std::uint64_t bytes() const { return lines_.size() * sizeof(Line); }

  // Where byte `at` lies, for messages.
  std::string where(std::uint64_t at) const {
    for (const Operand& o : operands_) {
      if (at >= o.offset && at < o.offset + o.live) {
        return fmt::format("{} byte {}{}", o.name, at - o.offset, o.access == Access::read ? " (an input)" : "");
      }
      if (at >= o.offset && at < o.offset + o.bytes) return fmt::format("{} byte {} (beyond its rows)", o.name, at - o.offset);
      if (at + kGuard >= o.offset && at < o.offset) return fmt::format("{} bytes before {}", o.offset - at, o.name);
      if (at >= o.offset + o.bytes && at < o.offset + o.bytes + kGuard) {
        return fmt::format("{} bytes after {}", at - o.offset - o.bytes + 1, o.name);
      }
    }
    return fmt::format("image byte {}", at);
  }

 private:
  const ShapeCase* case_;
  std::vector<Operand> operands_;
  std::vector<Line> lines_;
};

// The first byte at which two images differ, in words; empty when there is none.
std::string difference(const Image& a, const Image& b) {
  if (std::memcmp(a.data(), b.data(), a.bytes()) == 0) return {};
  std::uint64_t at = 0;
  while (a.data()[at] == b.data()[at]) ++at;
  return a.where(at);
}

float float_at(const Image& image, std::uint64_t at) {
  float value;
  std::memcpy(&value, image.data() + at, sizeof value);
  return value;
}

// Compares with the reference; bounded floats are then made equal in `got`, so that the rest can be compared as bytes.
void compare_bounded(const Image& wanted, Image& got, const std::vector<Bound>& bounds, std::vector<std::string>& problems) {
  for (const Bound& bound : bounds) {
    const Operand& o = wanted.find(bound.operand);
    for (std::size_t i = 0; i < bound.absolute.size(); ++i) {
      const std::uint64_t at = o.offset + i * 4;
      const double reference = float_at(wanted, at);
      const double value = float_at(got, at);
      // Written so that a NaN fails.
      if (!(std::fabs(value - reference) <= bound.absolute[i]) && problems.size() < 5) {
        problems.push_back(fmt::format("{}[{}] = {}, reference {}, off by {:.3g} of allowed {:.3g}", bound.operand, i, value,
                                       reference, std::fabs(value - reference), bound.absolute[i]));
      }
      std::memcpy(got.data() + at, wanted.data() + at, 4);
    }
  }
}

}  // namespace

Status run_kernel(device::Queue& queue, const KernelEntry& kernel, const void* args) {
  PLUMB_ASSIGN(device::CommandBuffer buffer, queue.begin({.label = "conformance"}));
  PLUMB_TRY(buffer->launch({.kernel = &kernel.kernel,
                            .args = args,
                            .args_bytes = kernel.op->args_bytes,
                            .cost = {},  // declares nothing: a small case too is for all workers (device/cpu/cpu_buffer.cpp)
                            .tag = {.op = kernel.op->name}}));
  return queue.submit(std::move(buffer)).wait();
}

Checker::Checker() {
  for (const int threads : {1, 2, 3}) {
    auto queue = device::open_cpu_queue({.threads = threads});
    PLUMB_CHECK(queue.ok());
    queues_.push_back(std::move(queue).value());
  }
}

struct Checker::Prepared {
  const ShapeCase* of;
  std::string name;  // another case may come to lie where one has been
  Image start;
  Image wanted;
  std::vector<Bound> bounds;
};

Checker::~Checker() = default;

const Checker::Prepared& Checker::prepare(const ShapeCase& c) {
  if (last_ != nullptr && last_->of == &c && last_->name == c.name) return *last_;
  Image start(c);
  Random random(hash64(c.name));
  c.fill(start.bind(c.rows).data(), random);
  std::vector<Bound> bounds;
  if (c.bounds) bounds = c.bounds(start.bind(c.rows).data());
  Image wanted = start;
  c.op->reference(wanted.bind(c.rows).data());
  last_ = std::make_unique<Prepared>(Prepared{&c, c.name, std::move(start), std::move(wanted), std::move(bounds)});
  return *last_;
}

std::vector<std::string> Checker::check(const KernelEntry& kernel, const ShapeCase& c) {
  std::vector<std::string> problems;
  if (const Status valid = c.op->check(c.args.data()); !valid.ok()) return {"the case itself: " + valid.error().to_string()};
  const auto& [of, name, start, wanted, bounds] = prepare(c);

  Image first = start;
  if (const Status ran = run_kernel(*queues_[0], kernel, first.bind(c.rows).data()); !ran.ok()) {
    return {"failed: " + ran.error().to_string()};
  }
  first.forget_scratch(start);
  Image compared = first;
  compare_bounded(wanted, compared, bounds, problems);
  if (const std::string at = difference(wanted, compared); !at.empty()) problems.push_back("differs from the reference at " + at);

  for (std::size_t i = 0; i < queues_.size(); ++i) {
    Image again = start;
    const Status ran = run_kernel(*queues_[i], kernel, again.bind(c.rows).data());
    const std::string threads = fmt::format("with {} thread(s)", i + 1);
    if (!ran.ok()) problems.push_back("failed " + threads + ": " + ran.error().to_string());
    again.forget_scratch(start);
    if (const std::string at = difference(first, again); !at.empty()) {
      problems.push_back("a run " + threads + " gave other bits at " + at);
    }
  }

  for (std::int32_t r = 0; c.rows_independent && r < c.rows && problems.empty(); ++r) {
    Image alone = start;
    const ArgsBlob args = alone.bind(1, r);
    if (c.isolate) c.isolate(args.data(), r);
    const Status ran = run_kernel(*queues_[1], kernel, args.data());
    if (!ran.ok()) problems.push_back(fmt::format("row {} alone failed: {}", r, ran.error().to_string()));
    for (const Operand& o : first.operands()) {
      if (o.access == Access::read || o.access == Access::scratch || o.row_stride == 0) continue;
      const std::uint64_t at = o.offset + o.row_stride * static_cast<std::uint64_t>(r);
      if (std::memcmp(alone.data() + at, first.data() + at, o.row_stride) != 0) {
        problems.push_back(fmt::format("row {} alone has other bits in {} than in its batch", r, o.name));
      }
    }
  }
  return problems;
}

}  // namespace plumb::kernels::conformance
