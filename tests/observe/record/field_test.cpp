// A field is declared once: its row in the table is enough for JSON, both readers, sums, rollup and
// TensorBoard. The test adds numbers to a record of its own, as they would be added to a step.
#include "observe/record/field.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "observe/record/field_columns.h"
#include "observe/record/field_reader.h"
#include "observe/record/field_writer.h"
#include "observe/record/rollup_table.h"
#include "observe/record/simdjson_value.h"
#include "observe/tensorboard/field_scalars.h"

namespace reigen {
namespace {

struct Inside {
  double fans = 0;
  bool operator==(const Inside&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field(&Inside::fans, "fans", kSeconds, "time of the fans").over_steps(Combine::kSum)};
  }
};

template <class R>
constexpr auto measured_fields(Combine combine) {
  return std::tuple{
      field(&R::joules, "joules", Unit{"J"}, "energy").over_steps(combine).scalar("power/joules"),
      field(&R::hottest, "hottest", Unit{"C"}, "highest temperature").over_steps(Combine::kMax),
      field(&R::newest, "newest", kCount, "a later field").since("9.9").over_steps(Combine::kLast),
      field(&R::renamed, "renamed", kSeconds, "a renamed field").was("before"),
      field(&R::inside, "inside", kNoUnit, "an object").over_steps(combine)};
}

struct OneStep {
  double joules = 0;
  double hottest = 0;
  uint64_t newest = 5;
  double renamed = 0;
  std::optional<Inside> inside;
  bool operator==(const OneStep&) const = default;
  static constexpr auto fields() { return measured_fields<OneStep>(Combine::kSum); }
  static constexpr auto derived() {
    return std::array{
        Derived<OneStep>{"count", [](const OneStep&) { return 1.0; }, Combine::kSum},
        Derived<OneStep>{"power/half", [](const OneStep& r) { return r.joules / 2; },
                         Combine::kNone, [](const OneStep& r) { return r.joules > 1; }}};
  }
};

struct SomeSteps {
  double joules = 0;
  double hottest = 0;
  uint64_t newest = 5;
  double renamed = 0;
  Inside inside;
  static constexpr auto fields() { return measured_fields<SomeSteps>(Combine::kSum); }
};

OneStep example(double joules) {
  return {.joules = joules,
          .hottest = 60 + joules,
          .newest = 7,
          .renamed = 0.1234567,
          .inside = Inside{.fans = joules / 4}};
}

Json json_of(const OneStep& record) {
  Json json;
  write_fields(record, json);
  return json;
}

OneStep read_by_nlohmann(const std::string& text) {
  return read_fields<OneStep>(JsonValue(Json::parse(text)));
}

OneStep read_by_simdjson(const std::string& text) {
  simdjson::dom::parser parser;
  return read_fields<OneStep>(SimdjsonValue(parser.parse(text).value()));
}

TEST(Field, IsWrittenWithItsKeyInThePrecisionOfItsUnit) {
  EXPECT_EQ(one_line(json_of(example(2))),
            R"({"joules":2.0,"hottest":62.0,"newest":7,"renamed":0.123457,"inside":{"fans":0.5}})");
}

TEST(Field, IsReadByBothLibraries) {
  OneStep expected = example(2);
  const std::string text = one_line(json_of(expected));
  expected.renamed = 0.123457;
  EXPECT_EQ(read_by_nlohmann(text), expected);
  EXPECT_EQ(read_by_simdjson(text), expected);
}

TEST(Field, IsLeftOutWhenItIsAnEmptyOptional) {
  OneStep without = example(2);
  without.renamed = 0;
  without.inside.reset();
  const std::string text = one_line(json_of(without));
  EXPECT_EQ(text, R"({"joules":2.0,"hottest":62.0,"newest":7,"renamed":0.0})");
  EXPECT_EQ(read_by_nlohmann(text), without);
  EXPECT_EQ(read_by_simdjson(text), without);
}

TEST(Field, IsReadFromItsOldKeyAndMayBeAbsentBeforeItsVersion) {
  const std::string text = R"({"joules":1,"hottest":2,"before":3,"inside":{"fans":4}})";
  const OneStep expected = {
      .joules = 1, .hottest = 2, .newest = 5, .renamed = 3, .inside = Inside{4}};
  EXPECT_EQ(read_by_nlohmann(text), expected);
  EXPECT_EQ(read_by_simdjson(text), expected);
}

TEST(Field, ThatIsMissingOrOfAWrongTypeIsNamed) {
  auto error = [](auto read, const std::string& text) {
    try {
      read(text);
    } catch (const DataError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  const std::string missing = R"({"joules":1,"renamed":3,"inside":{"fans":4}})";
  EXPECT_EQ(error(read_by_nlohmann, missing), "\"hottest\" is missing");
  EXPECT_EQ(error(read_by_simdjson, missing), "\"hottest\" is missing");
  const std::string wrong = R"({"joules":1,"hottest":2,"renamed":3,"inside":{"fans":"none"}})";
  EXPECT_EQ(error(read_by_nlohmann, wrong), "\"fans\" is not a number");
  EXPECT_EQ(error(read_by_simdjson, wrong), "\"fans\" is not a number");
}

TEST(Field, IsCombinedOverSteps) {
  SomeSteps sum;
  OneStep without = example(4);
  without.inside.reset();
  for (const OneStep& step : {example(3), example(2), without}) {
    add_fields(sum, step, SomeSteps::fields(), OneStep::fields());
  }
  EXPECT_EQ(sum.joules, 9);
  EXPECT_EQ(sum.hottest, 64);
  EXPECT_EQ(sum.newest, 7u);
  EXPECT_EQ(sum.renamed, 0);  // its row does not say how
  EXPECT_EQ(sum.inside.fans, 1.25);
}

TEST(Field, IsAColumnOfTheRollup) {
  RollupTable table(columns_of<SomeSteps>(), 2);
  for (uint64_t step = 0; step < 8; ++step) {
    SomeSteps sum;
    add_fields(sum, example(static_cast<double>(step)), SomeSteps::fields(), OneStep::fields());
    table.add(step, row_of(sum));
  }
  EXPECT_EQ(table.width(), 4u);
  EXPECT_EQ(table.total("joules"), 28);
  EXPECT_EQ(table.total("hottest"), 67);
  EXPECT_EQ(table.total("newest"), 7);
  EXPECT_EQ(table.total("fans"), 7);
  EXPECT_THROW(table.column("renamed"), Error);
  std::vector<std::string_view> names;
  for (const RollupColumn& column : columns_of<OneStep>()) names.push_back(column.name);
  EXPECT_EQ(names, (std::vector<std::string_view>{"joules", "hottest", "newest", "count"}));
}

TEST(Field, IsATensorBoardScalarIfItHasATag) {
  auto shown = [](const OneStep& record) {
    std::vector<std::pair<std::string, double>> all;
    for (const EventScalar& scalar : scalars_of(record)) all.emplace_back(scalar.tag, scalar.value);
    return all;
  };
  using Scalars = std::vector<std::pair<std::string, double>>;
  EXPECT_EQ(shown(example(2)), (Scalars{{"power/joules", 2}, {"power/half", 1}}));
  EXPECT_EQ(shown(example(1)), (Scalars{{"power/joules", 1}}));
}

}  // namespace
}  // namespace reigen
