// The rule of succession: single cases, all subsets of small memberships, and random schedules of
// splits, ends and interrupted formings.
#include "dist/members/forming/succession.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "base/format.h"
#include "dist/members/forming/witness.h"

namespace reigen {
namespace {

WorkerId worker(int number) { return {number, static_cast<uint64_t>(number) + 100}; }

Proposal proposal(int64_t epoch, const std::vector<int>& numbers) {
  Proposal made{.epoch = epoch, .id = format("id{}", epoch)};
  for (int number : numbers) made.members.push_back(worker(number));
  return made;
}

Asking ask(int number, const Proposal& formed, std::vector<Proposal> open = {}) {
  return {.worker = worker(number), .record = {.formed = formed, .open = std::move(open)}};
}

bool allowed(const Proposal& formed, const std::vector<int>& numbers,
             const std::vector<EndProof>& ended = {}) {
  std::vector<Asking> asking;
  for (int number : numbers) asking.push_back(ask(number, formed));
  return succession(asking, ended).allowed;
}

TEST(Succession, NeedsAMajorityOrHalfWithTheLowestRank) {
  const Proposal four = proposal(3, {2, 5, 6, 7});
  EXPECT_TRUE(allowed(four, {5, 6, 7}));
  EXPECT_TRUE(allowed(four, {2, 7}));
  EXPECT_FALSE(allowed(four, {6, 7}));
  EXPECT_FALSE(allowed(four, {2}));
  EXPECT_TRUE(allowed(proposal(0, {0, 1}), {0}));
  EXPECT_FALSE(allowed(proposal(0, {0, 1}), {1}));
  EXPECT_FALSE(allowed(four, {}));
}

TEST(Succession, AWitnessDecidesInsteadOfTheLowestRank) {
  const Proposal two = proposal(0, {0, 1});
  const TieBreaker for_one = [](const Proposal&, std::span<const WorkerId>,
                                std::span<const WorkerId> half) { return half[0] == worker(1); };
  EXPECT_TRUE(succession(std::vector{ask(1, two)}, {}, for_one).allowed);
  EXPECT_FALSE(succession(std::vector{ask(0, two)}, {}, for_one).allowed);
}

TEST(Succession, ProvenEndsReduceTheMembership) {
  const Proposal three = proposal(0, {0, 1, 2});
  const EndProof zero{worker(0), {.formed = three}};
  const EndProof one{worker(1), {.formed = three}};
  EXPECT_FALSE(allowed(three, {2}, {zero}));
  EXPECT_TRUE(allowed(three, {1}, {zero}));  // now the lowest rank of two
  EXPECT_TRUE(allowed(three, {2}, {zero, one}));
}

TEST(Succession, AProofTellsOfAMembershipThatSurvivesElsewhere) {
  const Proposal before = proposal(0, {0, 1, 2});
  const Proposal after = proposal(1, {1, 2});  // formed while worker 0 was cut off
  const EndProof two{worker(2), {.formed = after}};
  EXPECT_FALSE(allowed(before, {0}, {two}));
  EXPECT_TRUE(allowed(after, {1}, {two}));
  // The same if worker 2 had accepted it and never learned that it was formed.
  const EndProof unsure{worker(2), {.formed = before, .open = {after}}};
  EXPECT_FALSE(allowed(before, {0}, {unsure}));
}

TEST(Succession, AnOpenProposalBindsUntilItIsAborted) {
  const Proposal before = proposal(0, {0, 1, 2});
  const Proposal open = proposal(1, {0, 1});  // its host, worker 0, may have declared it formed
  std::vector<Asking> asking = {ask(1, before, {open}), ask(2, before)};
  EXPECT_FALSE(succession(asking, {}).allowed);
  asking[1].record.learn_aborted(open.id);  // worker 2 has heard from the host
  EXPECT_TRUE(succession(asking, {}).allowed);
}

TEST(Succession, TheNewestFormedMembershipIsTheBase) {
  const Proposal before = proposal(0, {0, 1, 2, 3});
  const Proposal after = proposal(1, {0, 1, 2});
  const Succession result = succession(std::vector{ask(1, before, {after}), ask(2, after)}, {});
  EXPECT_TRUE(result.allowed);
  EXPECT_EQ(result.base.id, after.id);
  // Worker 3 was excluded: it does not count, and has to join.
  EXPECT_FALSE(succession(std::vector{ask(1, after), ask(2, after), ask(3, before)}, {}).allowed);
}

// Workers 0 and 1 form a membership that adds 2 and 3; nobody else has heard of its outcome.
TEST(Succession, AWorkerThatWasAddedHasNoVoteUntilTheNextMembership) {
  Proposal grown = proposal(1, {0, 1, 2, 3});
  grown.added = 2;
  EXPECT_FALSE(allowed(grown, {2, 3}));
  EXPECT_FALSE(allowed(grown, {1, 2, 3}));
  EXPECT_TRUE(allowed(grown, {0, 2}));
  EXPECT_TRUE(allowed(grown, {0, 1}));
  // A survivor who never heard that it was formed is bound by 0 and 1 alone.
  const Proposal before = proposal(0, {0, 1, 2});
  Proposal open = proposal(1, {0, 1, 2, 3});
  open.added = 1;
  EXPECT_TRUE(succession(std::vector{ask(1, before, {open}), ask(2, before)}, {}).allowed);
  EXPECT_FALSE(allowed(open, {0, 3}));
  // Those who had a vote have ended: the others have it now.
  const std::vector<EndProof> ended = {{worker(0), {.formed = grown}},
                                       {worker(1), {.formed = grown}}};
  EXPECT_TRUE(allowed(grown, {2, 3}, ended));
  EXPECT_TRUE(allowed(grown, {2}, ended));
  EXPECT_FALSE(allowed(grown, {3}, ended));
}

TEST(Succession, NeedsAWorkerWithTheTrainingState) {
  const Proposal three = proposal(0, {0, 1, 2});
  std::vector<Asking> asking = {ask(0, three), ask(2, three)};
  asking[0].has_state = asking[1].has_state = false;
  EXPECT_FALSE(succession(asking, {}).allowed);
  asking[1].has_state = true;
  EXPECT_TRUE(succession(asking, {}).allowed);
}

TEST(MembershipRecord, FormsAndAbortsStrikeProposalsOff) {
  MembershipRecord record{.formed = proposal(0, {0, 1, 2})};
  for (int64_t epoch : {1, 2, 4}) record.accept(proposal(epoch, {0, 1}));
  record.learn_formed(proposal(2, {0, 1}));
  ASSERT_EQ(record.open.size(), 1u);
  EXPECT_EQ(record.open[0].epoch, 4);
  record.learn_formed(proposal(1, {0, 1}));  // old news
  EXPECT_EQ(record.formed.epoch, 2);
  record.learn_aborted("id4");
  EXPECT_TRUE(record.open.empty());
}

std::vector<int> numbers_in(unsigned set) {
  std::vector<int> numbers;
  for (int i = 0; i < 32; ++i) {
    if ((set >> i & 1) != 0) numbers.push_back(i);
  }
  return numbers;
}

// Also with different knowledge of who has ended, as long as those ended before they accepted more.
TEST(Succession, NoTwoDisjointSetsOfAMembershipAreAllowed) {
  for (int size = 1; size <= 5; ++size) {
    const unsigned all = (1U << size) - 1;
    const Proposal membership = proposal(0, numbers_in(all));
    for (unsigned ended = 0; ended < all; ++ended) {
      std::vector<EndProof> proofs;
      for (int number : numbers_in(ended)) {
        proofs.push_back({worker(number), {.formed = membership}});
      }
      for (unsigned one = 1; one <= all; ++one) {
        if ((one & ended) != 0 || !allowed(membership, numbers_in(one), proofs)) continue;
        const unsigned others = all & ~one & ~ended;
        EXPECT_FALSE(allowed(membership, numbers_in(others), proofs)) << size << " " << one;
        EXPECT_FALSE(allowed(membership, numbers_in(others))) << size << " " << one;
      }
    }
  }
}

// Workers that form memberships while the network splits at random, processes end with or without
// a proof, and formings stop after any message.
class RandomJob {
 public:
  RandomJob(int size, uint64_t seed, const std::string& witness = "") : random_(seed) {
    std::vector<int> numbers(static_cast<size_t>(size));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i);
    proposals_.push_back(proposal(0, numbers));
    proposals_[0].witness = witness;
    for (int number : numbers) {
      workers_.push_back(ask(number, proposals_[0]));
      workers_.back().witness = witness;
      alive_.push_back(true);
    }
  }

  void play(int events) {
    for (int event = 0; event < events; ++event) {
      if (chance(0.1)) end_one();
      if (chance(0.05)) workers_[random_worker()].witness.clear();
      form(random_cell());
      check();
    }
  }

  int formed() const { return formed_; }
  int by_witness() const { return by_witness_; }

 private:
  bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }

  std::vector<size_t> random_cell() {
    std::vector<size_t> cell;
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (alive_[i] && chance(0.6)) cell.push_back(i);
    }
    return cell;
  }

  size_t random_worker() {
    return std::uniform_int_distribution<size_t>(0, workers_.size() - 1)(random_);
  }

  void end_one() {
    const size_t i = random_worker();
    if (!alive_[i] || std::count(alive_.begin(), alive_.end(), true) == 1) return;
    alive_[i] = false;
    if (chance(0.7)) proofs_.push_back({workers_[i].worker, workers_[i].record});
  }

  void form(const std::vector<size_t>& cell) {
    std::vector<Asking> asking;
    for (size_t i : cell) asking.push_back(workers_[i]);
    const bool heard = chance(0.5);  // of the proofs
    bool asked = false;
    const TieBreaker breaks = [&](const Proposal& membership, std::span<const WorkerId> left,
                                  std::span<const WorkerId> half) {
      if (membership.witness.empty()) return lowest_rank_breaks_tie(membership, left, half);
      if (asking.front().witness != membership.witness) return false;
      asked = true;
      return witness_.grants(tie_of(membership, half));
    };
    if (!succession(asking, heard ? proofs_ : std::vector<EndProof>{}, breaks).allowed) return;
    if (chance(0.1)) return;  // the host ends, or the others do not hear of it
    if (asked) ++by_witness_;
    std::vector<int> numbers;
    for (size_t i : cell) numbers.push_back(workers_[i].worker.number);
    Proposal made = proposal(static_cast<int64_t>(proposals_.size()), numbers);
    const bool all_reach_it = std::all_of(asking.begin(), asking.end(), [&](const Asking& one) {
      return one.witness == asking.front().witness;
    });
    if (all_reach_it) made.witness = asking.front().witness;
    proposals_.push_back(made);
    bool all = true;
    for (size_t i : cell) {
      const bool accepts = i == cell.front() || chance(0.8);  // the first is the host
      if (accepts) workers_[i].record.accept(made);
      all = all && accepts;
    }
    const bool host_remains = chance(0.7);
    if (!all) {
      if (!host_remains) return;  // nobody learns
      for (size_t i : cell) {
        if (i == cell.front() || chance(0.5)) workers_[i].record.learn_aborted(made.id);
      }
      return;
    }
    ++formed_;
    for (size_t i : cell) {
      if (i == cell.front() || chance(host_remains ? 0.9 : 0.3)) {
        workers_[i].record.learn_formed(made);
      }
    }
  }

  // A membership can train if all of its members are alive and know no newer one.
  bool trains(const Proposal& membership) const {
    return std::all_of(membership.members.begin(), membership.members.end(), [&](WorkerId id) {
      const auto i = static_cast<size_t>(id.number);
      return alive_[i] && workers_[i].record.formed.id == membership.id;
    });
  }

  // Two of them never can; one that could never will again beside a newer one.
  void check() {
    std::optional<int64_t> training;
    for (const Proposal& membership : proposals_) {
      if (!trains(membership)) continue;
      EXPECT_FALSE(training) << "epochs " << *training << " and " << membership.epoch;
      training = membership.epoch;
      EXPECT_GE(membership.epoch, newest_);
      newest_ = membership.epoch;
    }
  }

  std::mt19937_64 random_;
  std::vector<Proposal> proposals_;
  std::vector<Asking> workers_;
  std::vector<bool> alive_;
  std::vector<EndProof> proofs_;
  int64_t newest_ = 0;
  int formed_ = 0;
  int by_witness_ = 0;
  Witness witness_;
};

TEST(Succession, RandomSchedulesNeverLetTwoMembershipsTrain) {
  int formed = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    RandomJob job(2 + static_cast<int>(seed % 6), seed);
    job.play(40);
    formed += job.formed();
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(formed, 2000);  // the schedules do form memberships
}

TEST(Succession, NorDoTheyWithAWitness) {
  int formed = 0;
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    RandomJob job(2 + static_cast<int>(seed % 6), seed, "witness");
    job.play(40);
    formed += job.by_witness();
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(formed, 1000);
}

TEST(Witness, GrantsOneHalfOfEachMembership) {
  Witness witness;
  const Tie first{"a", {worker(0), worker(1)}};
  const Tie second{"a", {worker(2), worker(3)}};
  EXPECT_TRUE(witness.grants(second));
  EXPECT_FALSE(witness.grants(first));
  EXPECT_TRUE(witness.grants(second));
  EXPECT_FALSE(witness.grants({"a", {worker(2)}}));
  EXPECT_TRUE(witness.grants({"b", first.half}));
  EXPECT_EQ(tie_of(proposal(3, {}), std::vector{worker(3), worker(2)}),
            (Tie{"id3", {worker(2), worker(3)}}));
}

TEST(Succession, OfAMembershipWithAWitnessTheLowestRankDoesNotDecide) {
  Proposal two = proposal(0, {0, 1});
  two.witness = "witness";
  for (int number : {0, 1}) EXPECT_FALSE(allowed(two, {number}));
  EXPECT_TRUE(allowed(two, {0, 1}));
  // Nor of one that a worker may have formed; without a witness in it the lowest rank does.
  const Proposal before = proposal(0, {0, 1, 2});
  Proposal open = proposal(1, {0, 1});
  EXPECT_TRUE(succession(std::vector{ask(0, before, {open}), ask(2, before)}, {}).allowed);
  open.witness = "witness";
  EXPECT_FALSE(succession(std::vector{ask(0, before, {open}), ask(2, before)}, {}).allowed);
}

}  // namespace
}  // namespace reigen
