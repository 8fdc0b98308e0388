// Links between standby ports, each end polled in turn on one thread.
#include "dist/members/peer_links.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "base/interrupt.h"
#include "dist/net/message.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;

WorkerId peer_number(int number) { return {number, 100 + static_cast<uint64_t>(number)}; }

// One worker's end, with what happened to it.
struct PeerEnd {
  explicit PeerEnd(int number, const std::string& token = "token",
                   const std::string& forming = "first") {
    ignore_broken_pipes();
    Socket listener = listen_on("127.0.0.1", 0);
    at = {"127.0.0.1", port_of(listener)};
    links = std::make_unique<PeerLinks>(
        PeerLinksOptions{.self = peer_number(number), .token = token, .first_forming = forming},
        std::move(listener));
  }

  void turn() {
    links->poll(milliseconds(1), {});
    while (const auto event = links->next_event()) {
      if (event->message) {
        heard.push_back(text_field(*event->message, "kind").value_or("") + " from " +
                        std::to_string(event->from.number));
      } else {
        heard.push_back("no " + std::to_string(event->from.number));
      }
    }
  }

  Endpoint at;
  std::unique_ptr<PeerLinks> links;
  std::vector<std::string> heard;
};

void turn_until(std::vector<PeerEnd*> ends, const std::function<bool()>& done) {
  for (int i = 0; i < 5'000 && !done(); ++i) {
    for (PeerEnd* end : ends) end->turn();
  }
  EXPECT_TRUE(done());
}

TEST(PeerLinks, CarryMessagesBothWaysOnceBothEndsAreProven) {
  PeerEnd a(0);
  PeerEnd b(1);
  a.links->send(peer_number(1), {{"kind", "lost"}});  // there is no link
  a.links->dial(peer_number(1), b.at);
  a.links->send(peer_number(1), {{"kind", "one"}});
  a.links->send(peer_number(1), {{"kind", "two"}});
  turn_until({&a, &b}, [&] { return b.heard.size() == 2; });
  EXPECT_EQ(b.heard, (std::vector<std::string>{"one from 0", "two from 0"}));
  EXPECT_TRUE(b.links->has(peer_number(0)));
  EXPECT_NE(a.links->nonces(peer_number(1)), "");
  EXPECT_EQ(a.links->nonces(peer_number(1)), b.links->nonces(peer_number(0)));
  b.links->send(peer_number(0), {{"kind", "three"}});
  turn_until({&a, &b}, [&] { return a.heard.size() == 1; });
  EXPECT_EQ(a.heard[0], "three from 1");
}

TEST(PeerLinks, AWorkerOfADifferentJobOrFormingIsNoPeer) {
  for (const bool token : {true, false}) {
    PeerEnd a(0);
    PeerEnd b(1, token ? "other" : "token", token ? "first" : "other");
    a.links->dial(peer_number(1), b.at);
    a.links->send(peer_number(1), {{"kind", "one"}});
    for (int i = 0; i < 500; ++i) {
      a.turn();
      b.turn();
    }
    EXPECT_TRUE(b.heard.empty());
    EXPECT_FALSE(a.links->has(peer_number(1)));
    EXPECT_FALSE(b.links->has(peer_number(0)));
  }
}

// A flood of the port drops the connection of a worker that answers slowly: it is not lost.
TEST(PeerLinks, AWorkerThatWasTurnedAwayForStrangersDialsAgain) {
  PeerEnd a(0);
  PeerEnd b(1);
  a.links->dial(peer_number(1), b.at);
  a.links->send(peer_number(1), {{"kind", "one"}});
  std::vector<Socket> strangers;
  for (size_t i = 0; i < 3 * kMostStrangers; ++i) {
    int failed = 0;
    strangers.push_back(start_connect(b.at, failed));
    b.turn();  // takes the connection of a, and drops it again
  }
  strangers.clear();
  turn_until({&a, &b}, [&] { return !b.heard.empty(); });
  EXPECT_EQ(b.heard, (std::vector<std::string>{"one from 0"}));
  EXPECT_TRUE(a.heard.empty());
}

TEST(PeerLinks, AWorkerThatWasStartedAgainIsADifferentOne) {
  PeerEnd a(0);
  PeerEnd b(1);
  const WorkerId before{1, 99};
  a.links->dial(before, b.at);
  turn_until({&a, &b}, [&] { return !a.heard.empty(); });
  EXPECT_EQ(a.heard[0], "no 1");
  EXPECT_FALSE(a.links->has(before));
  EXPECT_FALSE(a.links->has(peer_number(1)));
}

TEST(PeerLinks, ARefusedDialAndAnEndedPeerAreTold) {
  PeerEnd a(0);
  auto b = std::make_unique<PeerEnd>(1);
  a.links->dial(peer_number(1), b->at);
  turn_until({&a, b.get()}, [&] { return a.links->has(peer_number(1)); });
  const Endpoint at = b->at;
  b.reset();
  turn_until({&a}, [&] { return a.heard.size() == 1; });
  EXPECT_EQ(a.heard[0], "no 1");
  a.links->dial(peer_number(1), at);
  turn_until({&a}, [&] { return a.heard.size() == 2; });
  EXPECT_EQ(a.heard[1], "no 1");
}

TEST(PeerLinks, TwoThatDialEachOtherGiveTheSameLinkAwayWithWhatWasNotRead) {
  PeerEnd a(0);
  PeerEnd b(1);
  a.links->dial(peer_number(1), b.at);
  b.links->dial(peer_number(0), a.at);
  a.links->send(peer_number(1), {{"kind", "ask"}});
  b.links->send(peer_number(0), {{"kind", "ask"}});
  turn_until({&a, &b}, [&] { return a.heard.size() == 1 && b.heard.size() == 1; });
  // As between a host and a follower: the last message decides.
  b.links->send(peer_number(0), {{"kind", "accept"}});
  turn_until({&a, &b}, [&] { return a.heard.size() == 2; });
  a.links->send(peer_number(1), {{"kind", "formed"}});
  turn_until({&a, &b}, [&] { return b.heard.size() == 2; });
  a.links->send(peer_number(1), {{"kind", "beat"}});
  auto of_a = a.links->take(peer_number(1));
  auto of_b = b.links->take(peer_number(0));
  ASSERT_TRUE(of_a && of_b);
  EXPECT_EQ(text_of(local_endpoint(of_a->channel.socket())),
            text_of(peer_endpoint(of_b->channel.socket())));
  const std::string beat = encode_message({{"kind", "beat"}});
  for (int i = 0; i < 5'000 && of_b->unread.size() < beat.size(); ++i) {
    read_available(of_b->channel, of_b->unread, beat.size());
  }
  EXPECT_EQ(of_b->unread, beat);
}

}  // namespace
}  // namespace reigen
