// Writing an op's REQUIRES as a list. The first one that fails is kept and names the op, the field and the value found.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "kernels/api/weight.h"

namespace plumb::kernels {

class ArgCheck {
 public:
  explicit ArgCheck(const char* op) : op_(op) {}

  // `must` completes the sentence "<field> must ...".
  ArgCheck& that(bool holds, const char* field, std::int64_t value, const char* must) {
    if (!holds) refuse(ErrorCode::invalid_argument, field, std::to_string(value), must);
    return *this;
  }
  ArgCheck& positive(const char* field, std::int64_t value) { return that(value > 0, field, value, "be positive"); }
  ArgCheck& rows(std::int64_t value) { return that(value >= 0, "rows", value, "not be negative"); }

  template <class T>
  ArgCheck& present(const char* field, const Ref<T>& ref) {
    if (!ref) refuse(ErrorCode::invalid_argument, field, "absent", "be given");
    return *this;
  }

  // A matrix, or a stack when `stacked`: whole blocks, strides that hold a row, scales exactly where the format has them.
  ArgCheck& weight(const char* field, const WeightView& w, bool stacked = false);

  // What a product takes: f32 rows with a stored format, q8 rows with a packed one.
  template <class F, class Q>
  ArgCheck& activations(const Ref<F>& in, const Ref<Q>& in_q8, WeightFormat format) {
    if (!ok_) return *this;
    const bool packed = is_packed(format);
    that(static_cast<bool>(in) != packed, "in", in ? 1 : 0, packed ? "be absent: packed weights take in_q8" : "be given");
    return that(static_cast<bool>(in_q8) == packed, "in_q8", in_q8 ? 1 : 0,
                packed ? "be given: the weights are packed" : "be absent: it needs packed weights");
  }

  ArgCheck& unsupported(bool holds, const char* field, const std::string& value, const char* must) {
    if (!holds) refuse(ErrorCode::unsupported, field, value, must);
    return *this;
  }

  Status done() const {
    if (ok_) return {};
    return error_;
  }

 private:
  void refuse(ErrorCode code, const char* field, std::string value, const char* must) {
    if (!ok_) return;
    ok_ = false;
    error_ = fail(code, std::string("must ") + must, op_, field, std::move(value));
  }

  const char* op_;
  bool ok_ = true;
  Error error_;
};

}  // namespace plumb::kernels
