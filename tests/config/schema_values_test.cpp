// The attributes of an option: one declaration decides whether it is recorded, compared on resume,
// shared between workers and shown as a hyper-parameter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/schema.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AttributesTest : public testing::Test {
 protected:
  AttributesTest() {
    schema.option("model.width", width, "width", 0, 1000).hyperparameter();
    schema.option("micro-tokens", micro_tokens, "tokens", 0, 1000).fixed_on_resume();
    schema.option("data", data, "DIR", "data").hyperparameter().free_on_resume().per_worker();
    schema.option("quiet", quiet, "quiet").free_on_resume().from_rank0();
    schema.option("stall", stall, "stall", 0, 1000).free_on_resume().for_launch();
    schema.option("token", token, "TEXT", "token").free_on_resume().unrecorded();
  }

  int64_t width = 1;
  int64_t micro_tokens = 2;
  std::string data = "d";
  bool quiet = true;
  int64_t stall = 3;
  std::string token = "secret";
  Schema schema{"try", "Tries things."};
};

TEST_F(AttributesTest, AnUnrecordedOptionIsNotRecorded) {
  EXPECT_EQ(one_line(schema.recorded()),
            R"({"model":{"width":1},"micro-tokens":2,"data":"d","quiet":true,"stall":3})");
}

TEST_F(AttributesTest, OnlyPerWorkerAndRank0OptionsMayDifferBetweenWorkers) {
  EXPECT_EQ(one_line(schema.same_for_all_workers()),
            R"({"model":{"width":1},"micro-tokens":2,"stall":3,"token":"secret"})");
}

TEST_F(AttributesTest, AWorkerUsesItsOwnValueWhereItHasOne) {
  EXPECT_EQ(one_line(schema.own_values()), R"({"data":"d","stall":3})");
  data = "";
  EXPECT_EQ(one_line(schema.own_values()), R"({"stall":3})");
}

TEST_F(AttributesTest, AFixedOptionMustNotChangeOnResume) {
  const Json before = schema.recorded();
  EXPECT_THAT(schema.changes_since(before), IsEmpty());
  data = token = "other";
  quiet = false;
  stall = 9;
  EXPECT_THAT(schema.changes_since(before), IsEmpty());
  width = 5;
  micro_tokens = 6;
  EXPECT_THAT(schema.changes_since(before),
              ElementsAre("model.width was 1 and is 5 now", "micro-tokens was 2 and is 6 now"));
  EXPECT_THAT(schema.changes_since(Json::object()), IsEmpty());
}

TEST_F(AttributesTest, HyperparametersAreListedInOrder) {
  EXPECT_THAT(schema.hyperparameter_keys(), ElementsAre("model.width", "data"));
}

TEST_F(AttributesTest, ANewOptionIsOneDeclaration) {
  const Json before = schema.recorded();
  double fresh = 0.5;
  schema.option("model.fresh", fresh, "fresh", 0, 1).hyperparameter();
  EXPECT_EQ(schema.recorded().at("model").at("fresh"), 0.5);
  EXPECT_EQ(schema.same_for_all_workers().at("model").at("fresh"), 0.5);
  EXPECT_THAT(schema.hyperparameter_keys(), ElementsAre("model.width", "data", "model.fresh"));
  EXPECT_THAT(schema.changes_since(before), IsEmpty()) << "an older run did not record it";
  const Json with_it = schema.recorded();
  fresh = 0.25;
  EXPECT_THAT(schema.changes_since(with_it), ElementsAre("model.fresh was 0.5 and is 0.25 now"));
}

TEST(ValueAt, FollowsAPathOfKeys) {
  const Json tree = {{"a", {{"b", {{"c", 1}}}}}, {"d", 2}};
  EXPECT_EQ(*value_at(tree, "a.b.c"), 1);
  EXPECT_EQ(*value_at(tree, "d"), 2);
  EXPECT_EQ(value_at(tree, "a.x"), nullptr);
  EXPECT_EQ(value_at(tree, "d.e"), nullptr);
}

TEST(FlatList, TakesOneValueOrListsOfThem) {
  EXPECT_THAT(flat_list("a"), ElementsAre("a"));
  EXPECT_THAT(flat_list(Json{{"a", "b"}, {"c"}}), ElementsAre("a", "b", "c"));
}

}  // namespace
}  // namespace reigen
