// The options of `reigen average`: checkpoints named on the command line or in YAML.
#include "config/average_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;

class AverageOptionsTest : public ::testing::Test {
 protected:
  AverageOptionsTest() { describe(schema, options); }
  void parse(const std::vector<std::string>& args) { schema.parse(args); }

  AverageOptions options;
  Schema schema{"average", "Averages."};
};

TEST_F(AverageOptionsTest, TakesCheckpointsInOrderFromSeveralOptions) {
  parse({"--checkpoints", "a", "b", "--output", "out", "--checkpoints", "c"});
  EXPECT_THAT(options.checkpoints, ElementsAre("a", "b", "c"));
  EXPECT_EQ(options.output, "out");
}

TEST_F(AverageOptionsTest, TakesOneCheckpointOrAListFromYaml) {
  schema.parse_yaml("checkpoints: a\n", "run.yaml");
  EXPECT_THAT(options.checkpoints, ElementsAre("a"));
  schema.parse_yaml("checkpoints: [b, 'c d']\n", "run.yaml");
  EXPECT_THAT(options.checkpoints, ElementsAre("b", "c d"));
  EXPECT_THROW(schema.parse_yaml("checkpoints: {a: b}\n", "run.yaml"), ConfigError);
}

TEST_F(AverageOptionsTest, RequiresAnOutputAndAtLeastOneCheckpoint) {
  EXPECT_THROW(parse({"--run", "r"}), ConfigError);
  EXPECT_THROW(parse({"--run", "r", "--output", "o", "--last", "0"}), ConfigError);
  parse({"--run", "r", "--output", "o", "--last", "1"});
  EXPECT_EQ(options.last, 1);
}

}  // namespace
}  // namespace reigen
