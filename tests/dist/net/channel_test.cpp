// Connections in clear and encrypted, between two ends in this process over loopback.
#include "dist/net/channel.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "base/interrupt.h"

namespace reigen {
namespace {

const std::string kChannelToken = "a token of enough characters";

struct Ends {
  Ends(const Encryption& connecting, const Encryption& accepting) {
    ignore_broken_pipes();
    const Socket listener = listen_on("127.0.0.1", 0);
    std::string why;
    Socket out = connect_to({"127.0.0.1", port_of(listener)}, std::chrono::seconds(2), why);
    Socket in;
    while (!in.open()) in = accept_from(listener);
    a = Channel(std::move(out), connecting, Channel::Side::kConnecting);
    b = Channel(std::move(in), accepting, Channel::Side::kAccepting);
  }
  Channel a;
  Channel b;
};

// Moves `text` from one end to the other; the bytes that arrived.
std::string carry(Channel& from, Channel& to, std::string text) {
  std::string arrived;
  const size_t wanted = text.size();
  for (int turn = 0; turn < 10'000 && arrived.size() < wanted; ++turn) {
    if (!write_available(from, text)) break;
    if (!read_available(to, arrived, wanted)) break;
    std::string nothing;
    read_available(from, nothing, 1);  // drives the handshake
    write_available(to, nothing);
  }
  return arrived;
}

TEST(Channel, CarriesBytesBothWaysInClearAndEncrypted) {
  std::string long_text(3'000'000, 'x');
  for (size_t i = 0; i < long_text.size(); ++i) long_text[i] = static_cast<char>(i * 7919 >> 5);
  for (const Encrypt mode : {Encrypt::kOff, Encrypt::kAuto, Encrypt::kOn}) {
    const Encryption encryption(mode, kChannelToken);
    Ends ends(encryption, encryption);
    EXPECT_EQ(ends.a.encrypted(), mode == Encrypt::kOn);  // this is loopback
    EXPECT_EQ(carry(ends.a, ends.b, "hello"), "hello");
    EXPECT_TRUE(carry(ends.b, ends.a, long_text) == long_text);
    EXPECT_TRUE(carry(ends.a, ends.b, long_text) == long_text);
  }
}

TEST(Channel, ChangesItsKeyOnTheWay) {
  const Encryption often(Encrypt::kOn, kChannelToken, 10'000);
  Ends ends(often, often);
  std::string text(500'000, 'y');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 >> 3);
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_TRUE(carry(ends.a, ends.b, text) == text);
    EXPECT_TRUE(carry(ends.b, ends.a, text) == text);
  }
}

TEST(Channel, InClearOnOneMachineIsBoundToItsTwoEnds) {
  Ends first(Encryption{}, Encryption{});
  Ends second(Encryption{}, Encryption{});
  EXPECT_EQ(first.a.binding(), first.b.binding());
  EXPECT_NE(first.a.binding(), "");
  EXPECT_NE(first.a.binding(), second.a.binding());
}

TEST(Channel, RejectsADifferentToken) {
  Ends ends(Encryption(Encrypt::kOn, kChannelToken), Encryption(Encrypt::kOn, kChannelToken + "!"));
  EXPECT_EQ(carry(ends.a, ends.b, "hello"), "");
  EXPECT_TRUE(ends.a.key_rejected() || ends.b.key_rejected());
}

TEST(Channel, NeverFallsBackToClearText) {
  Ends deaf(Encryption(Encrypt::kOn, kChannelToken), Encryption(Encrypt::kOff, kChannelToken));
  EXPECT_NE(carry(deaf.a, deaf.b, "hello").substr(0, 5), "hello");
  EXPECT_EQ(carry(deaf.b, deaf.a, "hello"), "");
  EXPECT_FALSE(deaf.a.error().empty());
}

// An attacker between the two ends, who changes, repeats or drops bytes.
class Meddler {
 public:
  enum class Deed { kNone, kFlip, kRepeat, kDrop };
  explicit Meddler(Deed deed) {
    ignore_broken_pipes();
    int left[2];
    int right[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, left), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, right), 0);
    const Encryption on(Encrypt::kOn, kChannelToken);
    a = Channel(Socket(left[0]), on, Channel::Side::kConnecting);
    b = Channel(Socket(right[0]), on, Channel::Side::kAccepting);
    to_a_ = Socket(left[1]);
    to_b_ = Socket(right[1]);
    deed_ = deed;
  }

  // Carries `text`, in messages of 100 bytes; the deed is done to the third one.
  std::string carry(const std::string& text) {
    std::string arrived;
    for (int turn = 0; turn < 50; ++turn) forward(false, arrived);  // handshake
    for (size_t at = 0; at < text.size(); at += 100) {
      std::string part = text.substr(at, 100);
      write_available(a, part);
      forward(at == 200, arrived);
    }
    for (int turn = 0; turn < 50; ++turn) forward(false, arrived);
    return arrived;
  }

  Channel a;
  Channel b;

 private:
  void forward(bool now, std::string& arrived) {
    std::string bytes;
    std::string nothing;
    read_available(a, nothing, 1);
    if (read_available(to_a_, bytes, 1 << 20) && now) {
      if (deed_ == Deed::kFlip) bytes[bytes.size() / 2] ^= 1;
      if (deed_ == Deed::kRepeat) bytes += bytes;
      if (deed_ == Deed::kDrop) bytes.clear();
    }
    write_available(to_b_, bytes);
    read_available(b, arrived, 1 << 20);
    bytes.clear();
    read_available(to_b_, bytes, 1 << 20);
    write_available(to_a_, bytes);
  }

  Socket to_a_;
  Socket to_b_;
  Deed deed_;
};

TEST(Channel, BytesThatWereChangedRepeatedOrDroppedNeverArrive) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += std::to_string(1'000'000'000 + i);
  const auto arrives = [&](Meddler::Deed deed) { return Meddler(deed).carry(text); };
  EXPECT_EQ(arrives(Meddler::Deed::kNone), text);
  for (const auto deed : {Meddler::Deed::kFlip, Meddler::Deed::kRepeat, Meddler::Deed::kDrop}) {
    Meddler meddler(deed);
    const std::string arrived = meddler.carry(text);
    // A repeated record is noticed after the first copy, which is genuine.
    EXPECT_EQ(arrived, text.substr(0, deed == Meddler::Deed::kRepeat ? 300 : 200));
    EXPECT_FALSE(meddler.b.error().empty());
  }
}

}  // namespace
}  // namespace reigen
