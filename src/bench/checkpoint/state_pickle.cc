// State dicts as Python pickles them (pickle_state() of shard_bytes.h).
#include <cstdint>
#include <string_view>

#include "base/base.h"
#include "bench/checkpoint/shard_bytes.h"

namespace millrace::bench {
namespace {

// Opcodes of Python's pickle.
constexpr std::string_view kProtocol2("\x80\x02", 2);
constexpr char kEmptyDict = '}';
constexpr char kMark = '(';
constexpr char kSetItems = 'u';
constexpr char kText = 'X';
constexpr std::string_view kLong8("\x8a\x08", 2);
constexpr char kTuple = 't';
constexpr char kTuple1 = '\x85';
constexpr char kEmptyTuple = ')';
constexpr char kFalse = '\x89';
constexpr char kPersistent = 'Q';
constexpr char kCall = 'R';
constexpr char kStop = '.';

std::string_view storage_class(data::ElementType type) {
  switch (type) {
    case data::ElementType::kF64:
      return "ctorch\nDoubleStorage\n";
    case data::ElementType::kF32:
      return "ctorch\nFloatStorage\n";
    case data::ElementType::kF16:
      return "ctorch\nHalfStorage\n";
    case data::ElementType::kBf16:
      return "ctorch\nBFloat16Storage\n";
    case data::ElementType::kI32:
      return "ctorch\nIntStorage\n";
    case data::ElementType::kI8:
      return "ctorch\nCharStorage\n";
    default:
      return "ctorch\nByteStorage\n";
  }
}

template <typename T>
void append_integer(std::string& out, T value) {
  out += text_of(std::as_bytes(std::span(&value, 1)));
}

void append_text(std::string& out, std::string_view text) {
  out += kText;
  append_integer(out, static_cast<uint32_t>(text.size()));
  out += text;
}

void append_number(std::string& out, uint64_t value) {
  out += kLong8;  // signed; the counts of a plan are far below 2^63
  append_integer(out, value);
}

// A call of _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks).
void append_tensor(std::string& out, const PlannedTensor& tensor, size_t index) {
  out += "ctorch._utils\n_rebuild_tensor_v2\n";
  out += kMark;
  out += kMark;
  append_text(out, "storage");
  out += storage_class(tensor.type);
  append_text(out, std::to_string(index));
  append_text(out, "cpu");
  append_number(out, tensor.count);
  out += kTuple;
  out += kPersistent;
  append_number(out, 0);
  append_number(out, tensor.count);
  out += kTuple1;
  append_number(out, 1);
  out += kTuple1;
  out += kFalse;
  out += "ccollections\nOrderedDict\n";
  out += kEmptyTuple;
  out += kCall;
  out += kTuple;
  out += kCall;
}

}  // namespace

std::string pickle_state(std::span<const PlannedTensor> tensors) {
  std::string out(kProtocol2);
  out += kEmptyDict;
  out += kMark;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string& group = tensors[i].group;
    const bool is_first = !group.empty() && (i == 0 || tensors[i - 1].group != group);
    const bool is_last =
        !group.empty() && (i + 1 == tensors.size() || tensors[i + 1].group != group);
    if (is_first) {
      append_text(out, group);
      out += kEmptyDict;
      out += kMark;
    }
    append_text(out, tensors[i].name);
    append_tensor(out, tensors[i], i);
    if (is_last) out += kSetItems;
  }
  out += kSetItems;
  out += kStop;
  return out;
}

}  // namespace millrace::bench
