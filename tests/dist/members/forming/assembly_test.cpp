// Forming of memberships in a simulated network: delays, late workers, ends, splits, cut pairs.
#include "dist/members/forming/assembly.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include "base/format.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;

WorkerId member_number(int number) { return {number, static_cast<uint64_t>(number) + 7}; }

// Workers of one membership that have just lost their group, and a network between them.
class Network {
 public:
  Network(int size, uint64_t seed) : random_(seed), size_(size) {
    before_.id = "before";
    for (int i = 0; i < size; ++i) before_.members.push_back(member_number(i));
    nodes_.resize(static_cast<size_t>(size));
    for (Node& node : nodes_) {
      node.reach.assign(static_cast<size_t>(size), true);
      node.record.formed = before_;
    }
  }

  // Worker i as it would ask now.
  Asking asking(int i) {
    return {.worker = member_number(i), .record = at(i).record, .witness = at(i).witness};
  }
  bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
  int number(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }

  void end(int i, milliseconds at = milliseconds(0)) { nodes_[static_cast<size_t>(i)].ends = at; }
  // It says nothing more, and nobody learns why: its kernel keeps the connections.
  void stop(int i, milliseconds at) { nodes_[static_cast<size_t>(i)].stops = at; }
  void set_silence(milliseconds silence) { times_.silence = silence; }
  void late(int i, milliseconds by) { nodes_[static_cast<size_t>(i)].starts = by; }
  void cut(int i, int j) {
    at(i).reach[static_cast<size_t>(j)] = at(j).reach[static_cast<size_t>(i)] = false;
  }
  void cut(const std::vector<int>& side, milliseconds from, milliseconds until) {
    splits_.push_back({side, from, until});
  }
  void prove_ends() { proves_ = true; }
  void set_witness() {
    before_.witness = "witness";
    for (Node& node : nodes_) {
      node.witness = before_.witness;
      node.record.formed = before_;
    }
  }
  void lose_witness(int i, milliseconds when) { at(i).loses_witness = when; }
  // The operator says on worker i's host that all that are not connected to it have ended.
  void give_up_others(int i, milliseconds when) { at(i).gives_up = when; }

  void run(milliseconds until) { run(milliseconds(0), until); }

  void run(milliseconds from, milliseconds until) {
    for (milliseconds now = from; now < until; now += milliseconds(5)) {
      for (const Split& split : splits_) change(split, now);
      for (int i = 0; i < size_; ++i) step(i, now);
    }
  }

  // The members of what worker i formed; empty if it has formed nothing.
  std::vector<int> formed_by(int i) {
    std::vector<int> numbers;
    if (!at(i).assembly || !at(i).assembly->formed()) return numbers;
    for (const WorkerId& worker : at(i).assembly->formed()->members)
      numbers.push_back(worker.number);
    return numbers;
  }
  bool alive(int i, milliseconds now) { return now < at(i).ends; }

  // All of `members` have formed a membership of exactly themselves.
  bool together(const std::vector<int>& members) {
    return std::all_of(members.begin(), members.end(),
                       [&](int i) { return formed_by(i) == members; });
  }

 private:
  struct Sent {
    milliseconds arrives;
    int from;
    FormingMessage message;
  };
  struct Node {
    milliseconds starts{0};
    milliseconds ends{1'000'000};
    milliseconds stops{1'000'000};
    milliseconds gives_up{-1};
    milliseconds loses_witness{-1};
    std::string witness;
    std::vector<std::pair<milliseconds, std::pair<Tie, bool>>> answers;
    std::vector<bool> reach;
    MembershipRecord record;
    std::optional<Assembly> assembly;
    std::vector<Sent> inbox;
    std::vector<bool> told;  // of the end of each other worker
    int begins = 0;
    std::vector<int> begun;  // begins of each other worker, as far as this one has noticed
  };

  struct Split {
    std::vector<int> side;
    milliseconds from, until;
  };

  void change(const Split& split, milliseconds now) {
    if (now != split.from && now != split.until) return;
    for (int i : split.side) {
      for (int j = 0; j < size_; ++j) {
        if (std::find(split.side.begin(), split.side.end(), j) != split.side.end()) continue;
        at(i).reach[static_cast<size_t>(j)] = at(j).reach[static_cast<size_t>(i)] =
            now == split.until;
      }
    }
  }

  // The answers come later, unless the worker has lost the witness by then.
  void ask_witness(Node& node, milliseconds now) {
    for (const Tie& tie : node.assembly->take_questions()) {
      const bool granted = witness_.grants(tie);
      node.answers.push_back({now + milliseconds(number(1, 40)), {tie, granted}});
    }
    for (const auto& [when, answer] : node.answers) {
      if (when > now || node.witness.empty()) continue;
      node.assembly->learn_answer(answer.first, answer.second);
    }
    std::erase_if(node.answers, [&](const auto& answer) { return answer.first <= now; });
  }

  Node& at(int i) { return nodes_[static_cast<size_t>(i)]; }
  static Assembly::Time time(milliseconds now) { return Assembly::Time(now); }

  EndProof proof_of(int i) { return {member_number(i), at(i).record}; }

  // What a worker knows when it begins: it reports those it cannot reach, and has heard of ends.
  void begin(int i, milliseconds now) {
    Node& node = at(i);
    Assembly::Losses losses;
    std::vector<EndProof> ended;
    node.told.assign(static_cast<size_t>(size_), false);
    node.begun.clear();
    if (node.assembly) ++node.begins;
    for (int j = 0; j < size_; ++j) {
      node.begun.push_back(at(j).begins);
      const bool dead = !alive(j, now);
      if (dead && proves_) ended.push_back(proof_of(j));
      const bool cut = !node.reach[static_cast<size_t>(j)];
      if (dead || cut) losses.lost.push_back(member_number(j));
      if (cut) losses.unreachable.push_back(member_number(j));
      node.told[static_cast<size_t>(j)] = dead;
    }
    node.assembly.emplace(asking(i), ended, losses, times_, time(now));
  }

  std::set<WorkerId> connected_to(int i, milliseconds now) {
    std::set<WorkerId> peers;
    for (int j = 0; j < size_; ++j) {
      const bool here = j != i && alive(j, now) && now >= at(j).starts;
      if (here && at(i).reach[static_cast<size_t>(j)]) peers.insert(member_number(j));
    }
    return peers;
  }

  // A member of the membership that it formed has ended since.
  bool lost_again(int i, milliseconds now) {
    const std::vector<int> members = formed_by(i);
    return std::any_of(members.begin(), members.end(), [&](int m) { return !alive(m, now); });
  }

  void step(int i, milliseconds now) {
    Node& node = at(i);
    if (now < node.starts || now >= node.stops || !alive(i, now)) return;
    if (!node.assembly || lost_again(i, now)) begin(i, now);
    for (int j = 0; j < size_; ++j) {
      const auto other = static_cast<size_t>(j);
      const bool ended = !alive(j, now) && !node.told[other];
      if (ended) node.told[other] = true;
      const bool closed = node.begun[other] != at(j).begins;  // its connections, when it began anew
      node.begun[other] = at(j).begins;
      if (ended || closed) node.assembly->disconnected(member_number(j), time(now));
    }
    auto due = std::stable_partition(node.inbox.begin(), node.inbox.end(),
                                     [&](const Sent& sent) { return sent.arrives > now; });
    const std::vector<Sent> arrived(due, node.inbox.end());
    node.inbox.erase(due, node.inbox.end());
    for (const Sent& sent : arrived) {
      node.assembly->receive(member_number(sent.from), sent.message, time(now));
    }
    node.assembly->set_connected(connected_to(i, now));
    if (now == node.gives_up) node.assembly->trust_that_others_ended();
    if (now == node.loses_witness) {
      node.witness.clear();
      node.assembly->lose_witness();
    }
    node.assembly->tick(time(now));
    node.record = node.assembly->record();
    ask_witness(node, now);
    for (Assembly::Outgoing& out : node.assembly->take_outgoing()) deliver(i, std::move(out), now);
  }

  // In order between two workers, as on a connection.
  void deliver(int from, Assembly::Outgoing out, milliseconds now) {
    const int to = out.to.number;
    if (!alive(to, now)) return at(from).assembly->disconnected(out.to, time(now));
    if (!at(from).reach[static_cast<size_t>(to)]) return;
    milliseconds arrives = now + milliseconds(number(1, 40));
    for (const Sent& sent : at(to).inbox) {
      if (sent.from == from) arrives = std::max(arrives, sent.arrives);
    }
    at(to).inbox.push_back({arrives, from, std::move(out.message)});
  }

  std::mt19937_64 random_;
  int size_;
  Proposal before_;
  std::vector<Node> nodes_;
  bool proves_ = false;
  std::vector<Split> splits_;
  Witness witness_;
  AssemblyTimes times_;
};

constexpr milliseconds kEnough{60'000};

std::vector<int> all_but(int size, const std::vector<int>& missing) {
  std::vector<int> rest;
  for (int i = 0; i < size; ++i) {
    if (std::find(missing.begin(), missing.end(), i) == missing.end()) rest.push_back(i);
  }
  return rest;
}

// The new memberships: those of which all members are alive and agree.
std::vector<std::vector<int>> memberships(Network& net, int size) {
  std::vector<std::vector<int>> found;
  for (int i = 0; i < size; ++i) {
    const std::vector<int> members = net.formed_by(i);
    const bool seen = std::find(found.begin(), found.end(), members) != found.end();
    const auto living = [&](int m) { return net.alive(m, kEnough); };
    const bool alive = std::all_of(members.begin(), members.end(), living);
    if (!members.empty() && !seen && alive && net.together(members)) found.push_back(members);
  }
  return found;
}

void for_seeds(int count, const std::function<void(Network&, int size)>& body) {
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(count); ++seed) {
    const int size = 2 + static_cast<int>(seed % 6);
    Network net(size, seed);
    for (int i = 0; i < size; ++i) net.late(i, milliseconds(net.number(0, 200)));
    body(net, size);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed << ", " << size << " workers";
  }
}

TEST(Assembly, AllSurvivorsOfAnEndFormAtOnce) {
  for_seeds(100, [](Network& net, int size) {
    const int ended = net.number(1, size - 1);
    net.end(ended);
    net.run(milliseconds(1'000));
    EXPECT_TRUE(net.together(all_but(size, {ended})));
  });
}

TEST(Assembly, TheLowestRankMayBeTheOneThatEnded) {
  for_seeds(100, [](Network& net, int size) {
    net.end(0);
    if (size == 2) net.prove_ends();
    net.run(milliseconds(1'000));
    EXPECT_TRUE(net.together(all_but(size, {0})));
  });
}

TEST(Assembly, OfTwoSidesOfASplitTheOneWithAQuorumForms) {
  for_seeds(200, [](Network& net, int size) {
    std::vector<int> sides[2];
    for (int i = 0; i < size; ++i) sides[net.number(0, 1)].push_back(i);
    for (int i : sides[0]) {
      for (int j : sides[1]) net.cut(i, j);
    }
    net.run(milliseconds(5'000));
    const size_t half = static_cast<size_t>(size);
    for (int s : {0, 1}) {
      const bool tie = 2 * sides[s].size() == half;
      const bool lowest = !sides[s].empty() && sides[s][0] == 0;
      const bool quorum = 2 * sides[s].size() > half || (tie && lowest);
      EXPECT_EQ(!sides[s].empty() && net.together(sides[s]), quorum) << "side " << s;
    }
  });
}

TEST(Assembly, OfTwoWorkersThatCannotReachEachOtherOneStays) {
  for_seeds(100, [](Network& net, int size) {
    if (size < 4) return;
    const int one = net.number(0, size - 2);
    const int other = net.number(one + 1, size - 1);
    net.cut(one, other);
    net.run(milliseconds(5'000));
    const auto formed = memberships(net, size);
    ASSERT_EQ(formed.size(), 1u);
    EXPECT_GE(2 * formed[0].size(), static_cast<size_t>(size));
    const auto in = [&](int i) {
      return std::find(formed[0].begin(), formed[0].end(), i) != formed[0].end();
    };
    EXPECT_FALSE(in(one) && in(other));
  });
}

TEST(Assembly, ALowerRankThatNoticesTheLossLateIsNotLeftOut) {
  Network net(5, 1);
  net.end(4);
  net.late(0, milliseconds(600));  // worker 1 hosts by then, and has a quorum
  net.run(milliseconds(3'000));
  EXPECT_TRUE(net.together({0, 1, 2, 3}));
}

TEST(Assembly, AHostWithoutAQuorumGivesItsFollowersUp) {
  Network net(5, 1);
  net.end(4);
  for (int i : {2, 3}) net.cut(0, i);  // worker 0 reaches worker 1 only, which is needed elsewhere
  net.run(milliseconds(5'000));
  EXPECT_TRUE(net.together({1, 2, 3}));
}

// Ends at any moment, also of hosts and of members of the new memberships.
TEST(Assembly, EndsWhileFormingNeverKeepThoseWhoMayContinueFromIt) {
  int continued = 0;
  for_seeds(400, [&](Network& net, int size) {
    std::vector<int> living;
    for (int i = 0; i < size; ++i) {
      if (net.chance(0.3)) {
        net.end(i, milliseconds(net.number(0, 1'500)));
      } else {
        living.push_back(i);
      }
    }
    net.run(milliseconds(6'000));
    EXPECT_LE(memberships(net, size).size(), 1u);
    std::vector<Asking> asking;
    for (int i : living) asking.push_back(net.asking(i));
    const Proposal base = succession(asking, {}).base;
    const auto outside = [&](int i) {
      const auto& members = base.members;
      return std::find(members.begin(), members.end(), member_number(i)) == members.end();
    };
    std::erase_if(living, outside);
    std::erase_if(asking, [&](const Asking& one) { return outside(one.worker.number); });
    if (!succession(asking, {}).allowed) return;
    ++continued;
    EXPECT_TRUE(net.together(living));
  });
  EXPECT_GT(continued, 120);
}

// All that are left are needed, so each of them has to be in the same round as all others. Until a
// round ends, the others wait for those that stopped.
TEST(Assembly, WorkersThatAreJustEnoughFormWhenTheOthersStop) {
  int slow = 0;
  for_seeds(600, [&](Network& net, int size) {
    if (size < 3) return;
    net.set_silence(milliseconds(1'000));
    std::vector<int> stopped;
    while (static_cast<int>(stopped.size()) < (size - 1) / 2) {
      const int one = net.number(0, size - 1);
      if (std::find(stopped.begin(), stopped.end(), one) == stopped.end()) stopped.push_back(one);
    }
    for (int i : stopped) net.stop(i, milliseconds(net.chance(0.5) ? 0 : net.number(0, 1'500)));
    const std::vector<int> rest = all_but(size, stopped);
    for (int i : rest) net.late(i, milliseconds(net.number(0, 100)));
    const auto all_formed = [&] {
      return std::none_of(rest.begin(), rest.end(),
                          [&](int i) { return net.formed_by(i).empty(); });
    };
    net.run(milliseconds(5'000));
    if (all_formed()) return;
    ++slow;
    net.run(milliseconds(5'000), milliseconds(15'000));
    EXPECT_TRUE(all_formed());
  });
  EXPECT_LE(slow, 6);
}

// At any moment of the rounds that those who wait go through, and by any of them.
TEST(Assembly, TheWordOfTheOperatorLeavesOutNoWorkerThatIsConnected) {
  for_seeds(300, [](Network& net, int size) {
    if (size < 4) return;
    std::vector<int> ended;
    for (int i = 0; i < (size + 1) / 2; ++i) ended.push_back(i);  // the tie-breaker, too
    for (int i : ended) net.end(i);
    const std::vector<int> rest = all_but(size, ended);
    const int asked =
        rest.at(static_cast<size_t>(net.number(0, static_cast<int>(rest.size()) - 1)));
    net.give_up_others(asked, milliseconds(5 * net.number(400, 1'200)));
    net.run(milliseconds(15'000));
    EXPECT_TRUE(net.together(rest));
  });
}

TEST(Assembly, AWitnessLetsExactlyOneHalfOfASplitForm) {
  int without_lowest = 0;
  for_seeds(1'000, [&](Network& net, int size) {
    if (size % 2 != 0) return;
    net.set_witness();
    std::vector<int> side;
    while (static_cast<int>(side.size()) < size / 2) {
      const int one = net.number(0, size - 1);
      if (std::find(side.begin(), side.end(), one) == side.end()) side.push_back(one);
    }
    std::sort(side.begin(), side.end());
    const std::vector<int> other = all_but(size, side);
    for (int i : side) net.late(i, milliseconds(net.number(0, 1'000)));
    net.cut(side, milliseconds(0), kEnough);
    net.run(milliseconds(3'500));
    EXPECT_EQ(net.together(side) + net.together(other), 1);
    if (net.together(side[0] == 0 ? other : side)) ++without_lowest;
  });
  EXPECT_GT(without_lowest, 0);
}

// Also of two workers, where the machine of the other one is lost without a proof of its end.
TEST(Assembly, AWitnessLetsAHalfContinueWhoseLowestRankIsGone) {
  for_seeds(200, [](Network& net, int size) {
    if (size % 2 != 0) return;
    net.set_witness();
    std::vector<int> gone;
    for (int i = 0; i < size / 2; ++i) gone.push_back(i);
    for (int i : gone) net.stop(i, milliseconds(0));
    net.run(milliseconds(5'000));
    EXPECT_TRUE(net.together(all_but(size, gone)));
  });
}

TEST(Assembly, WithoutTheWitnessOfTheirMembershipNoHalfForms) {
  for_seeds(200, [](Network& net, int size) {
    if (size % 2 != 0) return;
    net.set_witness();
    std::vector<int> side;
    for (int i = 0; i < size; ++i) {
      net.lose_witness(i, milliseconds(200));
      if (i < size / 2) side.push_back(i);
    }
    for (int i = 0; i < size; ++i) net.late(i, milliseconds(200));
    net.cut(side, milliseconds(0), milliseconds(6'000));
    net.run(milliseconds(5'000));
    for (int i = 0; i < size; ++i) EXPECT_TRUE(net.formed_by(i).empty());
    net.run(milliseconds(5'000), milliseconds(30'000));  // more than half need no witness
    const auto formed = memberships(net, size);
    ASSERT_EQ(formed.size(), 1u);
    EXPECT_EQ(net.asking(formed[0].at(0)).record.formed.witness, "");
  });
}

// Splits that heal, ends with and without a proof, and workers that lose the witness, all at any
// moment of the formings: never do two memberships stand that all of their members know.
TEST(Assembly, WithAWitnessNoTwoMembershipsEverStandAtOnce) {
  int formed = 0;
  int tie = 0;
  for_seeds(2'000, [&](Network& net, int size) {
    net.set_witness();
    if (net.chance(0.3)) net.prove_ends();
    for (int splits = net.number(1, 3); splits > 0; --splits) {
      std::vector<int> side;
      for (int i = 0; i < size; ++i) {
        if (net.chance(0.5)) side.push_back(i);
      }
      const auto from = milliseconds(5 * net.number(0, 400));
      net.cut(side, from, from + milliseconds(5 * net.number(1, 600)));
    }
    for (int i = 0; i < size; ++i) {
      if (net.chance(0.2)) net.end(i, milliseconds(net.number(0, 1'500)));
      if (net.chance(0.3)) net.lose_witness(i, milliseconds(5 * net.number(0, 300)));
    }
    for (milliseconds now(0); now < milliseconds(4'000); now += milliseconds(100)) {
      net.run(now, now + milliseconds(100));
      const auto found = memberships(net, size);
      ASSERT_LE(found.size(), 1u);
      if (!found.empty() && now == milliseconds(3'900)) {
        ++formed;
        if (2 * found[0].size() == static_cast<size_t>(size)) ++tie;
      }
    }
  });
  EXPECT_GT(formed, 1'000);
  EXPECT_GT(tie, 100);
}

// One worker of three, with the messages of the others made by hand.
class OneAssembly : public ::testing::Test {
 protected:
  using Kind = FormingMessage::Kind;

  OneAssembly() {
    before_.id = "before";
    for (int i = 0; i < 3; ++i) before_.members.push_back(member_number(i));
  }
  Asking asking(int i) const { return {.worker = member_number(i), .record = {.formed = before_}}; }
  Assembly assembly(int i) const { return {asking(i), {}, {}, {}, Assembly::Time()}; }
  static void pass(Assembly& worker, milliseconds time) { worker.tick(Assembly::Time(time)); }
  static void give(Assembly& worker, int from, FormingMessage message) {
    worker.receive(member_number(from), message, Assembly::Time());
  }
  // The kinds of messages to a worker since the last call.
  static std::vector<Kind> sent(Assembly& worker, int to) {
    std::vector<Kind> kinds;
    for (const Assembly::Outgoing& out : worker.take_outgoing()) {
      if (out.to == member_number(to)) kinds.push_back(out.message.kind);
    }
    return kinds;
  }

  Proposal before_;
};

TEST_F(OneAssembly, AFollowerRecordsAProposalAndForgetsAnAbortedOne) {
  Assembly worker = assembly(1);
  give(worker, 0, {.kind = Kind::kHere});
  pass(worker, milliseconds(0));
  EXPECT_EQ(sent(worker, 0), (std::vector{Kind::kAsk, Kind::kJoin}));
  Proposal proposal{.epoch = 1, .id = "first", .members = {member_number(0), member_number(1)}};
  give(worker, 2, {.kind = Kind::kPropose, .proposal = proposal});  // not its host
  EXPECT_TRUE(worker.record().open.empty());
  give(worker, 0, {.kind = Kind::kPropose, .proposal = proposal});
  ASSERT_EQ(worker.record().open.size(), 1u);
  EXPECT_EQ(worker.record().open[0].id, "first");
  EXPECT_EQ(sent(worker, 0), std::vector{Kind::kAccept});
  give(worker, 0, {.kind = Kind::kAborted, .proposal = proposal});
  EXPECT_TRUE(worker.record().open.empty());
  EXPECT_EQ(sent(worker, 0), (std::vector{Kind::kLeave, Kind::kAsk}));
  EXPECT_FALSE(worker.formed());
}

TEST_F(OneAssembly, AFollowerIgnoresOldProposalsAndOutcomesOfOthers) {
  Assembly worker = assembly(1);
  give(worker, 0, {.kind = Kind::kHere});
  pass(worker, milliseconds(0));
  Proposal proposal{.epoch = 0, .id = "old", .members = before_.members};
  give(worker, 0, {.kind = Kind::kPropose, .proposal = proposal});
  EXPECT_TRUE(worker.record().open.empty());
  proposal.epoch = 1;
  give(worker, 0, {.kind = Kind::kFormed, .proposal = proposal});  // never accepted
  EXPECT_FALSE(worker.formed());
  give(worker, 0, {.kind = Kind::kPropose, .proposal = proposal});
  give(worker, 0, {.kind = Kind::kPropose, .proposal = {.epoch = 1, .id = "second"}});
  EXPECT_EQ(worker.record().open.size(), 1u);
  give(worker, 0, {.kind = Kind::kFormed, .proposal = proposal});
  ASSERT_TRUE(worker.formed());
  EXPECT_EQ(worker.record().formed.id, "old");
}

TEST_F(OneAssembly, AFollowerThatLosesItsHostKeepsTheProposalOpen) {
  Assembly worker = assembly(1);
  give(worker, 0, {.kind = Kind::kHere});
  pass(worker, milliseconds(0));
  const Proposal proposal{.epoch = 1, .id = "first", .members = before_.members};
  give(worker, 0, {.kind = Kind::kPropose, .proposal = proposal});
  worker.disconnected(member_number(0), Assembly::Time());
  ASSERT_EQ(worker.record().open.size(), 1u);
  // It hosts now, and proposes with worker 2 under a higher epoch.
  give(worker, 2, {.kind = Kind::kJoin, .asking = asking(2)});
  worker.disconnected(member_number(0), Assembly::Time());
  for (int i = 0; i < 3; ++i) pass(worker, milliseconds(0));
  give(worker, 2, {.kind = Kind::kAccept, .proposal = worker.record().open.back()});
  ASSERT_TRUE(worker.formed());
  EXPECT_EQ(worker.formed()->epoch, 2);
}

TEST_F(OneAssembly, AFollowerLooksAgainWhenTheEndOfItsHostIsProven) {
  Assembly worker = assembly(1);
  give(worker, 0, {.kind = Kind::kHere});
  pass(worker, milliseconds(0));
  worker.learn({{.worker = member_number(0), .record = {.formed = before_}}}, {member_number(0)});
  sent(worker, 0);
  pass(worker, milliseconds(1));
  EXPECT_EQ(sent(worker, 0), (std::vector{Kind::kLeave, Kind::kAsk}));
}

TEST_F(OneAssembly, AHostDeclaresAMembershipFormedWhenAllHaveAccepted) {
  Assembly host = assembly(0);
  pass(host, milliseconds(0));
  give(host, 1, {.kind = Kind::kJoin, .asking = asking(1)});
  give(host, 2, {.kind = Kind::kJoin, .asking = asking(2)});
  pass(host, milliseconds(0));
  ASSERT_EQ(host.record().open.size(), 1u);
  const Proposal proposal = host.record().open[0];
  EXPECT_EQ(proposal.members, before_.members);
  EXPECT_EQ(sent(host, 1), (std::vector{Kind::kAsk, Kind::kPropose}));
  give(host, 1, {.kind = Kind::kAccept, .proposal = proposal});
  EXPECT_FALSE(host.formed());
  give(host, 2, {.kind = Kind::kAccept, .proposal = {.id = "another"}});
  EXPECT_FALSE(host.formed());
  give(host, 2, {.kind = Kind::kAccept, .proposal = proposal});
  ASSERT_TRUE(host.formed());
  EXPECT_EQ(host.record().formed.id, proposal.id);
  EXPECT_EQ(sent(host, 1), std::vector{Kind::kFormed});
}

// Worker 0 does not see the run, whose writer was worker 3.
TEST_F(OneAssembly, RankZeroIsTheFirstOfThoseWithTheNewestCopyOfTheRun) {
  const std::vector<std::pair<std::vector<WritingClaim>, int>> cases = {
      {{{}, {}, {}}, 0},
      {{{}, {}, {.copy = {.checkpoint = 20}}}, 2},
      {{{}, {.copy = {.logged = 3}}, {}}, 1},
      {{{}, {.copy = {20, 29}}, {.copy = {30}}}, 2},
      {{{.copy = {20, 21}}, {.copy = {20, 29}}, {.copy = {20}}}, 1},
      {{{}, {.copy = {20, 29}}, {.copy = {20, 29}}}, 1},
      {{{}, {.copy = {20, 29}}, {.sees_directory = true}}, 2},
      {{{}, {.writes = true}, {.copy = {90, 99}}}, 1},
      {{{}, {.able = false, .copy = {90}}, {}}, 0},
  };
  for (const auto& [claims, first] : cases) {
    Asking own = asking(0);
    own.writing = claims[0];
    Assembly host(own, {}, {}, {}, Assembly::Time());
    pass(host, milliseconds(0));
    for (int i : {1, 2}) {
      Asking other = asking(i);
      other.writing = claims[static_cast<size_t>(i)];
      give(host, i, {.kind = Kind::kJoin, .asking = other});
    }
    pass(host, milliseconds(0));
    EXPECT_EQ(host.record().open.at(0).members.at(0), member_number(first));
  }
}

TEST_F(OneAssembly, AHostAddsThoseWhoWaitToACompleteMembership) {
  Asking joiner{.worker = member_number(7), .record = {.formed = before_}, .has_state = false};
  joiner.record.accept({.epoch = 6, .id = "tried", .members = {member_number(0)}});
  Assembly host = assembly(0);
  host.set_joiners({joiner});
  pass(host, milliseconds(0));
  give(host, 1, {.kind = Kind::kJoin, .asking = asking(1)});
  give(host, 2, {.kind = Kind::kJoin, .asking = asking(2)});
  pass(host, milliseconds(0));
  const Proposal proposal = host.record().open.at(0);
  std::vector<WorkerId> expected = before_.members;
  expected.push_back(member_number(7));
  EXPECT_EQ(proposal.members, expected);
  EXPECT_EQ(proposal.added, 1u);
  EXPECT_GT(proposal.epoch, 6);  // or the joiner would not accept it
  for (int i : {1, 2}) give(host, i, {.kind = Kind::kAccept, .proposal = proposal});
  EXPECT_FALSE(host.formed());
  give(host, 7, {.kind = Kind::kAccept, .proposal = proposal});
  EXPECT_TRUE(host.formed());
  EXPECT_EQ(sent(host, 7), (std::vector{Kind::kPropose, Kind::kFormed}));
}

TEST_F(OneAssembly, AHostAddsNobodyWhereAMemberIsLostOrTheJoinerIsGone) {
  for (const bool gone : {true, false}) {
    Assembly host = assembly(0);
    host.set_joiners({{.worker = member_number(7), .has_state = false}});
    pass(host, milliseconds(0));
    give(host, 1, {.kind = Kind::kJoin, .asking = asking(1)});
    if (gone) give(host, 2, {.kind = Kind::kJoin, .asking = asking(2)});
    host.disconnected(member_number(gone ? 7 : 2), Assembly::Time());
    pass(host, milliseconds(0));
    const Proposal proposal = host.record().open.at(0);
    EXPECT_EQ(proposal.members.size(), gone ? 3u : 2u);
    EXPECT_EQ(proposal.added, 0u);
  }
}

TEST_F(OneAssembly, AHostAbortsWhenAJoinerIsLostAndProposesTheOthers) {
  Assembly host = assembly(0);
  host.set_joiners({{.worker = member_number(7), .has_state = false}});
  pass(host, milliseconds(0));
  for (int i : {1, 2}) give(host, i, {.kind = Kind::kJoin, .asking = asking(i)});
  pass(host, milliseconds(0));
  sent(host, 1);
  host.disconnected(member_number(7), Assembly::Time());
  EXPECT_EQ(sent(host, 1), std::vector{Kind::kAborted});
  for (int i : {1, 2}) give(host, i, {.kind = Kind::kJoin, .asking = asking(i)});
  for (int i = 0; i < 3; ++i) pass(host, milliseconds(0));
  EXPECT_EQ(host.record().open.at(0).members, before_.members);
}

TEST_F(OneAssembly, AJoinerAcceptsTheProposalOfItsHostAndLooksForNobodyElse) {
  Assembly joiner = assembly(2);
  joiner.await_proposal_of(member_number(9), Assembly::Time());
  EXPECT_TRUE(joiner.take_outgoing().empty());
  const Proposal proposal{
      .epoch = 4, .id = "next", .members = {member_number(9), member_number(2)}, .added = 1};
  give(joiner, 9, {.kind = Kind::kPropose, .proposal = proposal});
  EXPECT_EQ(sent(joiner, 9), std::vector{Kind::kAccept});
  EXPECT_TRUE(joiner.follows());
  give(joiner, 9, {.kind = Kind::kAborted, .proposal = proposal});
  EXPECT_FALSE(joiner.follows());
  EXPECT_TRUE(joiner.record().open.empty());
  joiner = assembly(2);
  joiner.await_proposal_of(member_number(9), Assembly::Time());
  give(joiner, 9, {.kind = Kind::kPropose, .proposal = proposal});
  give(joiner, 9, {.kind = Kind::kFormed, .proposal = proposal});
  EXPECT_TRUE(joiner.formed());
}

TEST_F(OneAssembly, AHostThatANewerMembershipLeftOutProposesNothing) {
  // Worker 1 declared {1, 2} formed and ended; worker 2 only accepted, and follows worker 0.
  const Proposal without{
      .epoch = 1, .id = "without 0", .members = {member_number(1), member_number(2)}};
  MembershipRecord of_1{.formed = without};
  Asking two = asking(2);
  two.record.accept(without);
  Assembly host(asking(0), {{.worker = member_number(1), .record = of_1}},
                {.lost = {member_number(1)}}, {}, Assembly::Time());
  pass(host, milliseconds(0));
  give(host, 2, {.kind = Kind::kJoin, .asking = two});
  for (int i = 0; i < 30; ++i) pass(host, milliseconds(100 * i));
  EXPECT_FALSE(host.formed());
  EXPECT_TRUE(host.record().open.empty());
  const std::vector<Kind> kinds = sent(host, 2);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), Kind::kPropose), 0);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), Kind::kAborted), 1);
}

// Workers 0 and 1 of four, with the others cut off.
TEST_F(OneAssembly, AHostAsksTheWitnessOnceForHalfAndProposesWithItsWord) {
  before_.members.push_back(member_number(3));
  before_.witness = "launcher";
  Asking zero = asking(0);
  Asking one = asking(1);
  zero.witness = one.witness = "launcher";
  Assembly host(zero, {}, {.lost = {member_number(2), member_number(3)}}, {}, Assembly::Time());
  pass(host, milliseconds(0));
  pass(host, milliseconds(5));
  EXPECT_TRUE(host.take_questions().empty());  // alone it is no half
  give(host, 1, {.kind = Kind::kJoin, .asking = one});
  pass(host, milliseconds(10));
  EXPECT_TRUE(host.take_questions().empty());  // the proof of an end may be under way
  for (int i = 0; i < 3; ++i) pass(host, milliseconds(310 + 5 * i));
  const std::vector<Tie> asked = host.take_questions();
  EXPECT_EQ(asked, (std::vector{Tie{"before", {member_number(0), member_number(1)}}}));
  EXPECT_TRUE(host.record().open.empty());
  EXPECT_EQ(
      host.why_waiting(),
      "2 of 4 workers of epoch 0 are here; 3 are needed, or half of them with the word of the "
      "witness, which does not answer");
  host.learn_answer(asked.at(0), true);
  pass(host, milliseconds(330));
  EXPECT_EQ(host.record().open.at(0).witness, "launcher");
}

TEST_F(OneAssembly, AHostThatTheWitnessRefusesWaits) {
  before_.members.pop_back();
  before_.witness = "launcher";
  Asking zero = asking(0);
  zero.witness = "launcher";
  Assembly host(zero, {}, {.lost = {member_number(1)}}, {}, Assembly::Time());
  pass(host, milliseconds(0));
  pass(host, milliseconds(5));
  pass(host, milliseconds(305));
  host.learn_answer(host.take_questions().at(0), false);
  for (int i = 4; i < 50; ++i) pass(host, milliseconds(100 * i));
  EXPECT_TRUE(host.record().open.empty());
  EXPECT_THAT(host.why_waiting(), testing::HasSubstr("which the others have"));
  EXPECT_TRUE(host.take_questions().empty());
}

// It decides nothing any more, and neither does the lowest rank: the other half may have its word.
TEST_F(OneAssembly, AHostWithoutTheWitnessOfItsMembershipWaits) {
  before_.members.pop_back();
  before_.witness = "launcher";
  Assembly host(asking(0), {}, {.lost = {member_number(1)}}, {}, Assembly::Time());
  for (int i = 0; i < 50; ++i) pass(host, milliseconds(100 * i));
  EXPECT_TRUE(host.record().open.empty());
  EXPECT_TRUE(host.take_questions().empty());
  EXPECT_THAT(host.why_waiting(), testing::HasSubstr("which does not answer"));
}

TEST_F(OneAssembly, AMembershipHasAWitnessOnlyWhereAllOfItsWorkersReachIt) {
  for (const bool reached : {true, false}) {
    Asking zero = asking(0);
    zero.witness = "launcher";
    Assembly host(zero, {}, {}, {}, Assembly::Time());
    pass(host, milliseconds(0));
    for (int i : {1, 2}) {
      Asking other = asking(i);
      if (i == 1 || reached) other.witness = "launcher";
      give(host, i, {.kind = Kind::kJoin, .asking = other});
    }
    pass(host, milliseconds(0));
    EXPECT_EQ(host.record().open.at(0).witness, reached ? "launcher" : "");
  }
}

TEST_F(OneAssembly, AHostAbortsWhenAFollowerLeaves) {
  Assembly host = assembly(0);
  pass(host, milliseconds(0));
  give(host, 1, {.kind = Kind::kJoin, .asking = asking(1)});
  give(host, 2, {.kind = Kind::kJoin, .asking = asking(2)});
  pass(host, milliseconds(0));
  const Proposal proposal = host.record().open.at(0);
  sent(host, 1);
  give(host, 2, {.kind = Kind::kLeave});
  EXPECT_EQ(sent(host, 1), std::vector{Kind::kAborted});
  EXPECT_TRUE(host.record().open.empty());
  give(host, 2, {.kind = Kind::kAccept, .proposal = proposal});  // too late
  give(host, 1, {.kind = Kind::kAccept, .proposal = proposal});
  EXPECT_FALSE(host.formed());
}

// Worker 2 is in touch with the host first, and does not reach worker 1: of the two, 1 stays.
TEST_F(OneAssembly, AHostWaitsForAWorkerThatAnswersItAndThatAFollowerDoesNotReach) {
  for (const bool answers : {true, false}) {
    Assembly host = assembly(0);
    pass(host, milliseconds(0));
    give(host, 2,
         {.kind = Kind::kJoin,
          .asking = asking(2),
          .lost = {member_number(1)},
          .unreachable = {member_number(1)}});
    pass(host, milliseconds(100));
    EXPECT_TRUE(host.record().open.empty());
    if (answers) give(host, 1, {.kind = Kind::kHere});
    pass(host, milliseconds(500));
    EXPECT_EQ(host.record().open.empty(), answers);
    if (answers) give(host, 1, {.kind = Kind::kJoin, .asking = asking(1)});
    pass(host, milliseconds(600));
    const WorkerId stays = member_number(answers ? 1 : 2);
    EXPECT_EQ(host.record().open.at(0).members, (std::vector{member_number(0), stays}));
  }
}

}  // namespace
}  // namespace reigen
