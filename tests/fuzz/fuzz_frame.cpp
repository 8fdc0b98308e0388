// The connections of a mesh: rank 1 sends any bytes after it has proved the token, and rank 0 waits
// for messages. The bytes give the messages they encode, or a loss of rank 1; never anything else.
#include <poll.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "dist/mesh/frame.h"
#include "dist/mesh/mesh.h"
#include "dist/net/message.h"

namespace {

using namespace reigen;
using std::chrono::milliseconds;

const std::string kToken = "a token of enough characters";

// Waits for bytes rather than asking for them again and again: rank 0 needs the core.
Json next_message(Channel& channel, std::string& in) {
  Json message;
  while (decode_message(in, kMostFromStranger, message) != Decoded::kMessage) {
    pollfd readable{channel.fd(), POLLIN, 0};
    poll(&readable, 1, 1000);
    if (!read_available(channel, in, kMostFromStranger + 4)) std::abort();
  }
  return message;
}

// Plays rank 1 by hand: proves the token as dist/mesh/forming.cpp does, then sends `bytes`.
void play_rank_1(const Endpoint& at, std::string bytes) {
  std::string why;
  Channel channel(connect_to(at, milliseconds(2000), why), Encryption(),
                  Channel::Side::kConnecting);
  std::string in;
  const Json hello = next_message(channel, in);
  const std::string theirs = text_field(hello, "nonce").value_or("");
  const std::string proof =
      hmac_sha256(kToken, "mesh connects id 1 0 " + theirs + " own " + channel.binding());
  std::string out =
      encode_message({{"kind", "prove"}, {"rank", 1}, {"nonce", "own"}, {"proof", proof}});
  write_available(channel, out);
  next_message(channel, in);
  write_available(channel, bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  [[maybe_unused]] static const bool ready = (ignore_broken_pipes(), true);
  if (size < kFrameBytes) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  FrameHeader header;
  std::memcpy(header.data(), data, header.size());
  const auto frame = decode_frame(header);
  if (frame && encode_frame(*frame) != header) std::abort();

  const Socket listener = listen_on("127.0.0.1", 0);
  const Endpoint at{"127.0.0.1", port_of(listener)};
  std::thread other([&] { play_rank_1(at, bytes); });
  MeshOptions options;
  options.forming.size = 2;
  options.forming.peers = {at, at};
  options.forming.listener = &listener;
  options.forming.token = kToken;
  options.forming.id = "id";
  options.timeout = milliseconds(1000);
  try {
    Mesh mesh(options);
    const size_t wanted = frame && frame->bytes > 0 ? std::min<size_t>(frame->bytes, 4096) : 8;
    std::string memory(wanted, '\0');
    auto buffer = mesh.buffer(std::as_writable_bytes(std::span(memory)));
    buffer->receive(1, frame ? frame->slot : 0, 0, wanted);
    buffer->wait_received();
    if (!frame || bytes.compare(kFrameBytes, wanted, memory) != 0) std::abort();
  } catch (const CommFailure& failure) {
    if (failure.status.rank != 1) std::abort();
  }
  other.join();
  return 0;
}
