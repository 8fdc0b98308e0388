// The option tables of all commands: every page lists every option, and defaults are valid.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/format.h"
#include "config/attach_options.h"
#include "config/average_options.h"
#include "config/corpus_options.h"
#include "config/decode_options.h"
#include "config/demo_options.h"
#include "config/doctor_options.h"
#include "config/evaluate_options.h"
#include "config/inspect_options.h"
#include "config/prepare_options.h"
#include "config/report_options.h"
#include "config/schedule_options.h"
#include "config/train_options.h"

namespace reigen {
namespace {

template <class Options>
class EveryTable : public testing::Test {
 protected:
  EveryTable() { describe(schema, options); }
  Options options;
  Schema schema{"try", "Tries things."};
};

using Tables =
    testing::Types<CorpusOptions, PrepareOptions, InspectOptions, DemoOptions, TrainOptions,
                   AttachOptions, DoctorOptions, ReportOptions, TopOptions, DashboardOptions,
                   TranslateOptions, EvaluateOptions, AverageOptions, ScheduleCommandOptions>;
TYPED_TEST_SUITE(EveryTable, Tables);

TYPED_TEST(EveryTable, HasEachOptionOnceOnItsPage) {
  const std::string page = this->schema.markdown();
  ASSERT_FALSE(this->schema.options().empty());
  size_t rows = 0;
  for (size_t at = page.find("\n| `"); at != std::string::npos; at = page.find("\n| `", at + 1)) {
    ++rows;
  }
  EXPECT_EQ(rows, this->schema.options().size());
  for (const Option& option : this->schema.options()) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, format("\n| `{}` | `", option.key), page);
    EXPECT_FALSE(option.help.empty()) << option.key;
  }
}

TYPED_TEST(EveryTable, SpellsNoTwoOptionsAlike) {
  std::set<std::string> spellings;
  for (const Option& option : this->schema.options()) {
    EXPECT_TRUE(spellings.insert(option.key).second) << option.key;
    if (option.flag.empty()) continue;
    EXPECT_TRUE(spellings.insert(option.flag).second) << option.flag;
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "\n  --" + option.flag, this->schema.help());
  }
}

TYPED_TEST(EveryTable, HasDefaultsWithinItsOwnLimits) {
  // Defaults can be read back as YAML, except corpora.
  Json defaults = this->schema.current();
  for (const char* corpus : {"train", "valid", "test"}) defaults.erase(corpus);
  TypeParam copy;
  Schema again("try", "Tries things.");
  describe(again, copy);
  again.parse_yaml(pretty(defaults), "defaults.yaml");
  EXPECT_EQ(pretty(again.current()), pretty(this->schema.current()));
}

}  // namespace
}  // namespace reigen
