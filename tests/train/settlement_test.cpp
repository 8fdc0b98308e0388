#include "train/settlement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace reigen {
namespace {

Position at(uint64_t committed, bool began = false, bool reduced = false,
            const std::string& forming = "a") {
  return {.committed = committed, .began = began, .reduced = reduced, .forming = forming};
}

Settlement settled(const std::vector<Position>& positions) { return settle(positions); }

TEST(Settlement, KeepsAStepThatAllHaveCommitted) {
  const Settlement s = settled({at(7), at(7)});
  EXPECT_EQ(s.step, 7u);
  EXPECT_EQ(s.settled, Settled::kKept);
}

TEST(Settlement, AStepThatOneHasCommittedIsCommittedByAll) {
  const Settlement s = settled({at(6, true, true), at(7), at(6, true, true)});
  EXPECT_EQ(s.step, 7u);
  EXPECT_EQ(s.settled, Settled::kRolledForward);
  EXPECT_EQ(s.furthest->committed, 7u);
}

// The worker that was lost may have committed it.
TEST(Settlement, AStepThatAllHaveReducedIsCommitted) {
  const Settlement s = settled({at(6, true, true), at(6, true, true)});
  EXPECT_EQ(s.step, 7u);
  EXPECT_EQ(s.settled, Settled::kRolledForward);
  EXPECT_FALSE(s.furthest);
  EXPECT_EQ(settled({at(6, true, true)}).step, 7u);  // the only one that is left
}

TEST(Settlement, WorkersWithoutAStateDecideNothingAndReceiveIt) {
  const Position added{.stateless = true};
  const Settlement kept = settled({at(7), at(7), added});
  EXPECT_EQ(kept.step, 7u);
  EXPECT_EQ(kept.settled, Settled::kKept);
  EXPECT_THAT(kept.stateless, testing::ElementsAre(2));
  const Settlement forward = settled({at(6, true, true), added, at(6, true, true)});
  EXPECT_EQ(forward.step, 7u);
  EXPECT_EQ(forward.settled, Settled::kRolledForward);
  EXPECT_EQ(settlement_from(to_text(forward)).stateless, std::vector{1});
  EXPECT_TRUE(position_from(to_text(added)).stateless);
  EXPECT_THROW(settled({added, added}), CommError);
}

TEST(Settlement, AStepThatOneHasNotReducedIsDoneAgain) {
  for (const bool began : {false, true}) {
    const Settlement s = settled({at(6, true, true), at(6, began, false), at(6, true, true)});
    EXPECT_EQ(s.step, 6u);
    EXPECT_EQ(s.settled, Settled::kRepeated);
  }
  EXPECT_EQ(settled({at(6, true, true, "a"), at(6, true, true, "b")}).step, 6u);
}

// One has begun the step after the one that another has not committed yet.
TEST(Settlement, TheStepAfterTheCommittedOneIsDoneAgain) {
  const Settlement s = settled({at(7, true, false), at(6, true, true)});
  EXPECT_EQ(s.step, 7u);
  EXPECT_EQ(s.settled, Settled::kRolledForward);
}

TEST(Settlement, AllAdoptTheMemberThatIsFurthest) {
  Position evaluated = at(8);
  evaluated.evaluated = 8;
  evaluated.votes.save = 1;
  evaluated.state = "{\"x\": 1}";
  Position saved = evaluated;
  saved.checkpoint = 8;
  saved.unsaved = true;
  saved.votes.decay_steps = 50;
  const Settlement s = settlement_from(to_text(settled({at(8), evaluated, saved, at(8)})));
  EXPECT_EQ(s.step, 8u);
  EXPECT_EQ(s.furthest->checkpoint, 8u);
  EXPECT_TRUE(s.furthest->unsaved);
  EXPECT_EQ(s.furthest->votes.save, 1);
  EXPECT_EQ(s.furthest->votes.decay_steps, 50);
  EXPECT_EQ(s.furthest->state, saved.state);
  EXPECT_EQ(settlement_from(to_text(settled({at(8, true, true)}))).settled,
            Settled::kRolledForward);
}

TEST(Settlement, APositionSurvivesItsText) {
  Position p = at(3, true, true, "id");
  p.evaluated = 2;
  p.decay = 1;
  p.state = "text \"quoted\"\n";
  const Position back = position_from(to_text(p));
  EXPECT_EQ(back.committed, 3u);
  EXPECT_TRUE(back.began);
  EXPECT_TRUE(back.reduced);
  EXPECT_EQ(back.forming, "id");
  EXPECT_EQ(back.evaluated, 2u);
  EXPECT_EQ(back.decay, 1u);
  EXPECT_EQ(back.state, p.state);
}

TEST(Settlement, AStepThatCannotBeHadIsAnError) {
  EXPECT_THROW(settled({at(7), at(6, true, false)}), CommError);
  EXPECT_THROW(settled({at(7), at(5, true, true)}), CommError);
}

}  // namespace
}  // namespace reigen
