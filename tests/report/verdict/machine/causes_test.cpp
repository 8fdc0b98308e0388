// The rule that names a cause, shared by runs and predictions.
#include "report/verdict/machine/causes.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace reigen {
namespace {

TEST(Causes, EachHasAnIdThatReadsBack) {
  std::set<std::string> ids;
  for (int i = 0; i <= static_cast<int>(Cause::kOther); ++i) {
    const auto cause = static_cast<Cause>(i);
    EXPECT_EQ(info_of(cause).cause, cause);
    EXPECT_EQ(cause_of(id_of(cause)), cause);
    EXPECT_TRUE(ids.insert(id_of(cause)).second) << id_of(cause);
  }
  EXPECT_EQ(cause_of("no such cause"), Cause::kUnknown);
}

TEST(Causes, TheLargestShareIsNamedFrom15PercentOn) {
  EXPECT_EQ(decide(0.5, {{Cause::kInput, 0.14}}).cause, Cause::kCompute);
  EXPECT_EQ(decide(0.4, {{Cause::kInput, 0.15}}).cause, Cause::kInput);
  EXPECT_EQ(decide(0.4, {{Cause::kInput, 0.2}, {Cause::kNetwork, 0.3}}).cause, Cause::kNetwork);
  EXPECT_EQ(decide(1, {}).cause, Cause::kCompute);
}

// Compute is the answer only where it took most of the time.
TEST(Causes, ManySmallSharesAreNotCompute) {
  const Decision d = decide(0.4, {{Cause::kInput, 0.14}, {Cause::kEvaluation, 0.14}});
  EXPECT_EQ(d.cause, Cause::kSeveral);
  EXPECT_EQ(d.largest.cause, Cause::kInput);
  EXPECT_NEAR(d.margin, 0.01, 1e-9);
  EXPECT_EQ(decide(0.5, {{Cause::kInput, 0.14}, {Cause::kEvaluation, 0.14}}).cause,
            Cause::kCompute);
}

TEST(Causes, TheLimitDoublesWhereComputeTookMoreThanHalf) {
  EXPECT_EQ(decide(0.6, {{Cause::kInput, 0.29}}).cause, Cause::kCompute);
  EXPECT_EQ(decide(0.6, {{Cause::kInput, 0.31}}).cause, Cause::kInput);
  EXPECT_EQ(decide(0.6, {{Cause::kInput, 0.29}}).largest.cause, Cause::kInput);
}

TEST(Causes, TheMarginIsTheDistanceToTheNextCause) {
  EXPECT_NEAR(decide(0.6, {{Cause::kInput, 0.1}}).margin, 0.5, 1e-9);
  EXPECT_NEAR(decide(0.2, {{Cause::kInput, 0.4}, {Cause::kNetwork, 0.35}}).margin, 0.05, 1e-9);
  // A share just above the limit is certain where nothing else comes near.
  EXPECT_NEAR(decide(0.6, {{Cause::kInput, 0.31}}).margin, 0.31, 1e-9);
}

}  // namespace
}  // namespace reigen
