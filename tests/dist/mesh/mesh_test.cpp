// The forming of a mesh among strangers, and its messages.
#include "dist/mesh/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "base/interrupt.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;

const std::string kMeshToken = "a token of enough characters";

class MeshTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ignore_broken_pipes();
    for (int rank = 0; rank < 3; ++rank) {
      listeners.push_back(listen_on("127.0.0.1", 0));
      peers.push_back({"127.0.0.1", port_of(listeners.back())});
    }
  }

  MeshOptions options(int rank, int size, Encrypt encrypt = Encrypt::kAuto) const {
    MeshOptions o;
    o.forming.rank = rank;
    o.forming.size = size;
    o.forming.peers = peers;
    o.forming.listener = &listeners[static_cast<size_t>(rank)];
    o.forming.token = kMeshToken;
    o.forming.id = "forming";
    o.forming.encryption = Encryption(encrypt, kMeshToken);
    o.forming.within = milliseconds(5000);
    o.timeout = milliseconds(5000);
    return o;
  }

  // Ranks 0 and 1, formed at the same time.
  struct Pair {
    std::unique_ptr<Mesh> first;
    std::unique_ptr<Mesh> second;
  };
  Pair form_two(Encrypt encrypt = Encrypt::kAuto) {
    Pair pair;
    std::string error;
    std::thread other([&] {
      try {
        pair.first = std::make_unique<Mesh>(options(0, 2, encrypt));
      } catch (const CommError& e) {
        error = e.what();
      }
    });
    try {
      pair.second = std::make_unique<Mesh>(options(1, 2, encrypt));
    } catch (const CommError& e) {
      ADD_FAILURE() << e.what();
    }
    other.join();
    EXPECT_EQ(error, "");
    return pair;
  }

  static std::span<std::byte> bytes_of(std::string& text) {
    return std::as_writable_bytes(std::span(text.data(), text.size()));
  }

  std::vector<Socket> listeners;
  std::vector<Endpoint> peers;
};

// Sends `text` from rank 0 to rank 1 and returns the bytes that arrived.
std::string sent(Mesh& from, Mesh& to, std::string text) {
  std::string arrived(text.size(), '\0');
  std::thread sender([&] {
    auto out = from.buffer(std::as_bytes(std::span(text)));
    out->send(1, 7, 0, text.size());
    out->wait_sent();
  });
  auto in = to.buffer(std::as_writable_bytes(std::span(arrived)));
  in->receive(0, 7, 0, arrived.size());
  in->wait_received();
  sender.join();
  return arrived;
}

TEST_F(MeshTest, FormsAmongStrangersThatConnectFirst) {
  for (const Encrypt encrypt : {Encrypt::kAuto, Encrypt::kOn}) {
    std::vector<Socket> strangers;
    int failed = 0;
    for (int i = 0; i < 200; ++i) {
      strangers.push_back(start_connect(peers[0], failed));
      // 112 zero bytes and more end a process that believes every frame.
      const std::string junk(112, '\0');
      send(strangers.back().fd(), junk.data(), junk.size(), MSG_NOSIGNAL);
    }
    const Pair pair = form_two(encrypt);
    ASSERT_TRUE(pair.first && pair.second);
    EXPECT_EQ(sent(*pair.first, *pair.second, "hello"), "hello");
    EXPECT_EQ(pair.second->encrypted_peers(), encrypt == Encrypt::kOn ? 1 : 0);
  }
}

TEST_F(MeshTest, ARankWithADifferentTokenIsNoMember) {
  MeshOptions wrong = options(1, 2);
  wrong.forming.token = kMeshToken + "!";
  MeshOptions right = options(0, 2);
  wrong.forming.within = right.forming.within = milliseconds(500);
  std::atomic<int> refused = 0;
  std::thread other([&] {
    try {
      Mesh mesh(wrong);
    } catch (const CommError&) {
      ++refused;
    }
  });
  EXPECT_THROW(Mesh mesh(right), CommError);
  other.join();
  EXPECT_EQ(refused, 1);
}

// The proof of one forming is of no use in the next.
TEST_F(MeshTest, AnOldFormingIsNoMember) {
  MeshOptions old = options(1, 2);
  old.forming.id = "the forming before";
  MeshOptions now = options(0, 2);
  old.forming.within = now.forming.within = milliseconds(500);
  std::thread other([&] { EXPECT_THROW(Mesh mesh(old), CommError); });
  EXPECT_THROW(Mesh mesh(now), CommError);
  other.join();
}

TEST_F(MeshTest, MessagesOfSlotsArriveInAnyOrderOfReceives) {
  auto [first, second] = form_two();
  ASSERT_TRUE(first && second);
  std::string a(300'000, 'a');
  std::string b(5, 'b');
  std::thread sender([&] {
    auto out_a = first->buffer(bytes_of(a));
    auto out_b = first->buffer(bytes_of(b));
    out_a->send(1, 1, 0, a.size());
    out_b->send(1, 2, 0, b.size());
    out_b->wait_sent();
    out_a->wait_sent();
  });
  std::string in_a(a.size(), ' ');
  std::string in_b(b.size(), ' ');
  auto to_b = second->buffer(bytes_of(in_b));
  auto to_a = second->buffer(bytes_of(in_a));
  to_b->receive(0, 2, 0, b.size());
  to_a->receive(0, 1, 0, a.size());
  to_b->wait_received();
  to_a->wait_received();
  sender.join();
  EXPECT_EQ(in_a, a);
  EXPECT_EQ(in_b, b);
}

TEST_F(MeshTest, AMessageOfADifferentSizeIsALoss) {
  auto [first, second] = form_two();
  ASSERT_TRUE(first && second);
  std::string out = "12345";
  auto from = first->buffer(bytes_of(out));
  from->send(1, 1, 0, 5);
  std::string in(4, ' ');
  auto to = second->buffer(bytes_of(in));
  to->receive(0, 1, 0, 4);
  try {
    to->wait_received();
    FAIL();
  } catch (const CommFailure& failure) {
    EXPECT_EQ(failure.status.state, CommState::kLostPeer);
    EXPECT_EQ(failure.status.rank, 0);
  }
}

TEST_F(MeshTest, TheEndOfARankEndsTheWaitForIt) {
  auto [first, second] = form_two();
  ASSERT_TRUE(first && second);
  std::string in(4, ' ');
  auto to = second->buffer(bytes_of(in));
  to->receive(0, 1, 0, 4);
  first.reset();
  try {
    to->wait_received();
    FAIL();
  } catch (const CommFailure& failure) {
    EXPECT_EQ(failure.status.state, CommState::kLostPeer);
    EXPECT_EQ(failure.status.rank, 0);
  }
}

}  // namespace
}  // namespace reigen
