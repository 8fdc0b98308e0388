// Fields of JSON from outside: the right value, or an error that names the field.
#include "base/json/json_view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

namespace reigen {
namespace {

template <class F>
std::string field_error(F read) {
  try {
    read();
  } catch (const FieldError& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(JsonView, ConvertsToTheTypeOfTheTarget) {
  const Json json = parse_json(
      R"({"n": 18446744073709551615, "i": -3, "x": 0.5, "t": "a", "b": true, "l": [[1, 2]]})", "j");
  const JsonView view(json);
  const uint64_t n = view.at("n");
  const int i = view.at("i");
  const double x = view.at("x");
  const double whole = view.at("i");
  const std::string t = view.at("t");
  const bool b = view.at("b");
  const uint32_t inner = view.at("l").at(0).at(1);
  EXPECT_EQ(n, UINT64_MAX);
  EXPECT_EQ(i, -3);
  EXPECT_EQ(x, 0.5);
  EXPECT_EQ(whole, -3.0);
  EXPECT_EQ(t, "a");
  EXPECT_TRUE(b);
  EXPECT_EQ(inner, 2u);
  EXPECT_EQ(view.at("l").elements().size(), 1u);
  EXPECT_EQ(view.members().size(), 6u);
}

TEST(JsonView, AnErrorNamesThePathOfTheField) {
  const Json json = parse_json(R"({"a": [{"b": "text"}]})", "j");
  const JsonView view(json);
  EXPECT_TRUE(field_error([&] {
                uint64_t n = view.at("a").at(0).at("b");
                (void)n;
              }).starts_with("a[0].b: "));
  EXPECT_TRUE(field_error([&] { view.at("a").at(0).at("c"); }).starts_with("a[0].c: "));
  EXPECT_TRUE(field_error([&] { view.at("a").at(1); }).starts_with("a[1]: "));
  EXPECT_TRUE(field_error([&] { view.at("a").at("x"); }).starts_with("a: "));
}

TEST(JsonView, ANumberThatDoesNotFitIsRefused) {
  const Json json = parse_json(
      R"({"negative": -1, "large": 1e300, "half": 1.5, "max": 4294967296, "top": 9223372036854775808})",
      "j");
  const JsonView view(json);
  EXPECT_THROW((void)static_cast<uint64_t>(view.at("negative")), FieldError);
  EXPECT_THROW((void)static_cast<uint64_t>(view.at("large")), FieldError);
  EXPECT_THROW((void)static_cast<uint64_t>(view.at("half")), FieldError);
  EXPECT_THROW((void)static_cast<uint32_t>(view.at("max")), FieldError);
  EXPECT_THROW((void)static_cast<int>(view.at("max")), FieldError);
  EXPECT_THROW((void)static_cast<int64_t>(view.at("top")), FieldError);
  EXPECT_THROW((void)static_cast<bool>(view.at("max")), FieldError);
  EXPECT_THROW((void)static_cast<double>(JsonView(Json("1"), "x")), FieldError);
}

}  // namespace
}  // namespace reigen
