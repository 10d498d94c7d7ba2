#include "data/array.h"

#include <gmock/gmock.h>

namespace millrace::data {
namespace {

TEST(Shape, CountsElementsAndFormatsAsAList) {
  const Shape shape = {3, 224, 224};
  EXPECT_EQ(shape.element_count(), 150528u);
  EXPECT_EQ(shape.text(), "[3, 224, 224]");
  EXPECT_EQ(Shape{}.element_count(), 1u);
  EXPECT_EQ(Shape{}.text(), "[]");
  EXPECT_EQ((Shape{4, 0}).element_count(), 0u);
}

TEST(Shape, RefusesMoreElementsThanMemoryCanHold) {
  const uint64_t huge[] = {uint64_t{1} << 40, uint64_t{1} << 40};
  const auto shape = Shape::make(huge);
  ASSERT_FALSE(shape.ok());
  EXPECT_THAT(shape.error().message(), testing::HasSubstr("[1099511627776, 1099511627776]"));
}

TEST(Shape, RefusesMoreAxesThanItHolds) {
  const std::vector<uint64_t> nine(9, 1);
  EXPECT_EQ(Shape::make(nine).error().code(), Errc::kUnsupported);
}

TEST(FieldSpec, KnowsItsBytes) {
  const FieldSpec spec = {.name = "image", .type = ElementType::kF32, .shape = {3, 2, 2}};
  EXPECT_EQ(spec.size_bytes(), 48u);
}

}  // namespace
}  // namespace millrace::data
