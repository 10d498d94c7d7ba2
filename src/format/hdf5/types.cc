#include "format/hdf5/types.h"

#include <bit>

namespace millrace::format {
namespace {

using data::ElementType;

static_assert(std::endian::native == std::endian::little, "files are read as they are in memory");

// The bits of a floating-point number, from the lowest: mantissa, exponent, sign.
struct FloatBits {
  size_t exponent;
  size_t mantissa;
};
constexpr FloatBits kF16Bits{5, 10};
constexpr FloatBits kBf16Bits{8, 7};
constexpr FloatBits kF32Bits{8, 23};
constexpr FloatBits kF64Bits{11, 52};

bool has_bits(hid_t type, const FloatBits& bits) {
  size_t sign = 0, exponent = 0, exponent_size = 0, mantissa = 0, mantissa_size = 0;
  if (H5Tget_fields(type, &sign, &exponent, &exponent_size, &mantissa, &mantissa_size) < 0) {
    return false;
  }
  const size_t bias = (size_t{1} << (bits.exponent - 1)) - 1;
  return H5Tget_size(type) * 8 == bits.exponent + bits.mantissa + 1 && mantissa == 0 &&
         mantissa_size == bits.mantissa && exponent == bits.mantissa &&
         exponent_size == bits.exponent && sign == bits.mantissa + bits.exponent &&
         H5Tget_ebias(type) == bias && H5Tget_norm(type) == H5T_NORM_IMPLIED;
}

std::optional<ElementType> float_of(hid_t type) {
  if (has_bits(type, kF16Bits)) return ElementType::kF16;
  if (has_bits(type, kBf16Bits)) return ElementType::kBf16;
  if (has_bits(type, kF32Bits)) return ElementType::kF32;
  if (has_bits(type, kF64Bits)) return ElementType::kF64;
  return std::nullopt;
}

std::optional<ElementType> integer_of(hid_t type) {
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  if (H5Tget_precision(type) != H5Tget_size(type) * 8) return std::nullopt;
  switch (H5Tget_size(type)) {
    case 1:
      return is_signed ? ElementType::kI8 : ElementType::kU8;
    case 2:
      return is_signed ? ElementType::kI16 : ElementType::kU16;
    case 4:
      return is_signed ? ElementType::kI32 : ElementType::kU32;
    case 8:
      return is_signed ? ElementType::kI64 : ElementType::kU64;
    default:
      return std::nullopt;
  }
}

// h5py's booleans: an enumeration of FALSE and TRUE in a byte.
bool is_bool(hid_t type) {
  if (H5Tget_size(type) != 1 || H5Tget_nmembers(type) != 2) return false;
  for (const int number : {0, 1}) {
    int8_t value = 0;
    const char* const name = number == 0 ? "FALSE" : "TRUE";
    if (H5Tenum_valueof(type, name, &value) < 0 || value != number) return false;
  }
  return true;
}

std::optional<ElementType> number_of(hid_t type, H5T_class_t kind) {
  if (kind == H5T_INTEGER) return integer_of(type);
  if (kind == H5T_FLOAT) return float_of(type);
  if (is_bool(type)) return ElementType::kBool;
  const Hdf5Id base(H5Tget_super(type), H5Tclose);
  return base.ok() ? integer_of(base.get()) : std::nullopt;
}

const char* kind_name(H5T_class_t kind) {
  switch (kind) {
    case H5T_STRING:
    case H5T_VLEN:
      return "of any length";
    case H5T_COMPOUND:
      return "compound";
    case H5T_REFERENCE:
      return "references";
    case H5T_INTEGER:
    case H5T_FLOAT:
    case H5T_ENUM:
      return "numbers of an unusual size";
    default:
      return "of another type";
  }
}

bool is_little_endian(hid_t type, H5T_class_t kind) {
  if (H5Tget_size(type) == 1) return true;
  if (kind != H5T_ENUM) return H5Tget_order(type) == H5T_ORDER_LE;
  const Hdf5Id base(H5Tget_super(type), H5Tclose);
  return base.ok() && H5Tget_order(base.get()) == H5T_ORDER_LE;
}

Hdf5Id half_type(const FloatBits& bits) {
  Hdf5Id type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  // The fields first: the size may only shrink to what they leave.
  H5Tset_fields(type.get(), 15, bits.mantissa, bits.exponent, 0, bits.mantissa);
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), (size_t{1} << (bits.exponent - 1)) - 1);
  return type;
}

Hdf5Id bool_type() {
  Hdf5Id type(H5Tenum_create(H5T_STD_I8LE), H5Tclose);
  for (const int8_t value : {int8_t{0}, int8_t{1}}) {
    H5Tenum_insert(type.get(), value == 0 ? "FALSE" : "TRUE", &value);
  }
  return type;
}

hid_t standard_type(ElementType type) {
  switch (type) {
    case ElementType::kU8:
      return H5T_STD_U8LE;
    case ElementType::kI8:
      return H5T_STD_I8LE;
    case ElementType::kU16:
      return H5T_STD_U16LE;
    case ElementType::kI16:
      return H5T_STD_I16LE;
    case ElementType::kU32:
      return H5T_STD_U32LE;
    case ElementType::kI32:
      return H5T_STD_I32LE;
    case ElementType::kU64:
      return H5T_STD_U64LE;
    case ElementType::kI64:
      return H5T_STD_I64LE;
    case ElementType::kF32:
      return H5T_IEEE_F32LE;
    default:
      return H5T_IEEE_F64LE;
  }
}

}  // namespace

std::optional<Hdf5Type> element_of(hid_t type, std::string& what) {
  const H5T_class_t kind = H5Tget_class(type);
  what = kind_name(kind);
  if (kind == H5T_STRING) {
    if (H5Tis_variable_str(type) != 0 || H5Tget_size(type) == 0) return std::nullopt;
    return Hdf5Type{.string_bytes = H5Tget_size(type)};
  }
  if (kind != H5T_INTEGER && kind != H5T_FLOAT && kind != H5T_ENUM) return std::nullopt;
  const auto number = number_of(type, kind);
  if (!number) return std::nullopt;
  return Hdf5Type{.type = *number, .is_plain = is_little_endian(type, kind)};
}

Hdf5Id hdf5_type_of(ElementType type) {
  if (type == ElementType::kF16) return half_type(kF16Bits);
  if (type == ElementType::kBf16) return half_type(kBf16Bits);
  if (type == ElementType::kBool) return bool_type();
  return {H5Tcopy(standard_type(type)), H5Tclose};
}

Hdf5Id memory_type_of(hid_t file_type, const Hdf5Type& type) {
  if (type.string_bytes != 0) return {H5Tcopy(file_type), H5Tclose};
  // Enumerations convert only to enumerations with the same names.
  if (H5Tget_class(file_type) == H5T_ENUM) {
    return {H5Tget_native_type(file_type, H5T_DIR_DEFAULT), H5Tclose};
  }
  return hdf5_type_of(type.type);
}

}  // namespace millrace::format
