#include "dist/members/handshake.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/printable.h"
#include "dist/net/message.h"
#include "dist/net/proof.h"

namespace reigen {
namespace {

// The text of a server that has not proved that it knows the token: one short line, marked as such.
std::string unproven(const std::string& text) {
  constexpr size_t kMost = 120;
  std::string shown = text.substr(0, std::min(text.find('\n'), kMost));
  return format("the server there, which did not prove that it knows the job token, sent '{}{}'",
                printable_line(shown), shown.size() < text.size() ? "..." : "");
}

// The challenges contain the id of the forming; nothing: that which the server names.
std::string prove_for(std::optional<std::string> forming, Handshake& handshake,
                      const std::string& token, HandshakeClock::time_point deadline) {
  const auto hello = handshake.receive(deadline);
  const auto nonce = hello ? text_field(*hello, "nonce") : std::nullopt;
  if (handshake.channel().key_rejected()) {
    throw Refused{"the server there has a different job token, or encrypts differently"};
  }
  if (!hello) throw Refused{handshake.silent()};
  if (!nonce || text_field(*hello, "kind") != "hello") {
    throw Refused{"the server there is not a reigen rendezvous"};
  }
  if (!forming) {
    forming = text_field(*hello, "forming").value_or("");
    if (forming->size() != 2 * kNonceBytes || !hex_decode(*forming)) {
      throw Refused{"the server there is not the port of a worker to join"};
    }
  }
  const std::string own = random_hex(kNonceBytes);
  handshake.send({{"kind", "prove"},
                  {"nonce", own},
                  {"proof", hmac_sha256(token, member_challenge(handshake.channel(), *forming,
                                                                *nonce, own))}});
  const auto answer = handshake.receive(deadline);
  if (answer && text_field(*answer, "kind") == "refused") {
    throw Refused{unproven(text_field(*answer, "text").value_or(""))};
  }
  if (!answer) throw Refused{handshake.silent()};
  const auto proof = text_field(*answer, "proof");
  const std::string expected =
      hmac_sha256(token, server_challenge(handshake.channel(), *forming, own, *nonce));
  if (!proof || !same_secret(*proof, expected)) {
    throw Refused{"the server there does not know the job token"};
  }
  handshake.set_proved();
  return *forming;
}

}  // namespace

std::chrono::milliseconds left_until(HandshakeClock::time_point deadline) {
  using std::chrono::milliseconds;
  return std::max(std::chrono::duration_cast<milliseconds>(deadline - HandshakeClock::now()),
                  milliseconds(0));
}

void Handshake::send(const Json& message) {
  out_ += encode_message(message);
  write_available(channel_, out_);
}

std::optional<Json> Handshake::receive(HandshakeClock::time_point deadline) {
  const size_t most = proved_ ? kMostFromMember : kMostFromStranger;
  Json message;
  while (true) {
    switch (decode_message(in_, most, message)) {
      case Decoded::kMessage:
        return message;
      case Decoded::kBroken:
        return std::nullopt;
      case Decoded::kIncomplete:
        break;
    }
    check_interrupt();
    const std::chrono::milliseconds left = left_until(deadline);
    if (left.count() == 0) return std::nullopt;
    constexpr int kTick = 100;
    const size_t before = in_.size();
    const bool open = read_available(channel_, in_, most + 4) && write_available(channel_, out_);
    if (in_.size() > before) continue;
    if (!open) return std::nullopt;
    pollfd waiting{channel_.fd(), channel_.events(!out_.empty()), 0};
    poll(&waiting, 1, std::min<int>(kTick, static_cast<int>(left.count())));
  }
}

std::string Handshake::silent() const {
  return channel_.error().empty()
             ? "no answer from the server there (a different program, or --encrypt differs)"
             : format("the connection ended before an answer: {}", channel_.error());
}

Channel Handshake::take(std::string& unread) {
  unread = std::move(in_);
  return std::move(channel_);
}

void prove(Handshake& handshake, const std::string& token, HandshakeClock::time_point deadline) {
  prove_for(kNoForming, handshake, token, deadline);
}

std::string prove_to_running_job(Handshake& handshake, const std::string& token,
                                 HandshakeClock::time_point deadline) {
  return prove_for(std::nullopt, handshake, token, deadline);
}

}  // namespace reigen
