// integer_types: calls a template with the C++ type of an integer element.
#pragma once

#include <cstdint>

#include "data/array.h"

namespace millrace::format {

// Calls visit(T{}) with the type of the elements; returns visit's result, or `otherwise` for floats
// and booleans.
template <typename Visit, typename Value>
Value with_integer_type(data::ElementType type, Value otherwise, Visit visit) {
  using data::ElementType;
  switch (type) {
    case ElementType::kU8:
      return visit(uint8_t{});
    case ElementType::kI8:
      return visit(int8_t{});
    case ElementType::kU16:
      return visit(uint16_t{});
    case ElementType::kI16:
      return visit(int16_t{});
    case ElementType::kU32:
      return visit(uint32_t{});
    case ElementType::kI32:
      return visit(int32_t{});
    case ElementType::kU64:
      return visit(uint64_t{});
    case ElementType::kI64:
      return visit(int64_t{});
    default:
      return otherwise;
  }
}

}  // namespace millrace::format
