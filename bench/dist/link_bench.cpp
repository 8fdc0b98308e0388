// One rank of a benchmark of all-reduce against a raw TCP stream over the same link. Rank 0 prints
// one JSON object per line; link_bench.py starts the ranks in namespaces and prints a table.
//
//   link_bench RANK SIZE MACHINE HOST:PORT auto|on|off MEGABYTES...
//
// Ranks with the same MACHINE sum among themselves first. Ranks 0 and 1 must be on different
// machines for the stream to cross the link. Both send the same bytes: an all-reduce between two
// ranks sends the buffer once each way; the stream sends it one way, from rank 1 to rank 0, and
// ends with rank 0's acknowledgement.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/json/json.h"
#include "dist/members/membership.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;

constexpr int kRepeats = 5;

void wait_for(const Socket& socket, short events) {
  pollfd waiting{socket.fd(), events, 0};
  poll(&waiting, 1, -1);
}

void write_all(const Socket& socket, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t put = write(socket.fd(), data, size);
    if (put > 0) {
      data += put;
      size -= static_cast<size_t>(put);
    } else {
      wait_for(socket, POLLOUT);
    }
  }
}

void read_all(const Socket& socket, char* data, size_t size) {
  while (size > 0) {
    const ssize_t got = read(socket.fd(), data, size);
    if (got == 0) throw CommError("the stream ended early");
    if (got > 0) {
      data += got;
      size -= static_cast<size_t>(got);
    } else {
      wait_for(socket, POLLIN);
    }
  }
}

Socket open_stream(Membership& membership) {
  if (membership.group().rank() == 0) {
    const Socket listener = listen_on(membership.interface().address, 0);
    membership.control().set("stream",
                             text_of({membership.interface().address, port_of(listener)}));
    wait_for(listener, POLLIN);
    return accept_from(listener);
  }
  const auto at =
      parse_endpoints(*membership.control().get("stream", milliseconds(10'000))).front();
  std::string why;
  return connect_to(at, milliseconds(10'000), why);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Seconds for the data, measured by the sender, until the receiver has all of it.
double stream_seconds(const Socket& stream, bool sender, std::vector<float>& data) {
  std::vector<double> times;
  char done = 1;
  for (int i = 0; i < kRepeats; ++i) {
    Stopwatch watch;
    auto* bytes = reinterpret_cast<char*>(data.data());
    if (sender) {
      write_all(stream, bytes, data.size() * sizeof(float));
      read_all(stream, &done, 1);
    } else {
      read_all(stream, bytes, data.size() * sizeof(float));
      write_all(stream, &done, 1);
    }
    times.push_back(watch.seconds());
  }
  return median(times);
}

double reduce_seconds(Group& group, std::vector<float>& data, Wire wire) {
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    std::fill(data.begin(), data.end(), static_cast<float>(group.rank() + 1));
    if (!group.barrier().wait().ok()) throw CommError("lost a peer");
    Stopwatch watch;
    const CommStatus status = group.all_reduce(data, wire).wait();
    times.push_back(watch.seconds());
    if (!status.ok()) throw CommError(describe(status));
    const auto sum = static_cast<float>(group.size() * (group.size() + 1) / 2);
    if (std::any_of(data.begin(), data.end(), [&](float v) { return v != sum; })) {
      throw CommError("the sum is wrong");
    }
  }
  return median(times);
}

void run(int rank, int size, const std::string& machine, const Endpoint& at,
         const std::string& encrypt, const std::vector<double>& megabytes) {
  MembershipOptions options;
  options.rank = rank;
  options.size = size;
  options.rendezvous = {at};
  options.host = machine;
  options.token = "bench";
  options.encrypt = encrypt == "on"    ? Encrypt::kOn
                    : encrypt == "off" ? Encrypt::kOff
                                       : Encrypt::kAuto;
  if (rank == 0) options.listener = listen_on("", at.port);
  Membership membership(std::move(options));
  const Socket stream = rank < 2 ? open_stream(membership) : Socket();
  for (const double mb : megabytes) {
    std::vector<float> data(static_cast<size_t>(mb * 1e6 / sizeof(float)));
    Json line = {{"megabytes", mb}, {"ranks", size}, {"encryption", membership.encryption()}};
    if (!membership.group().barrier().wait().ok()) throw CommError("lost a peer");
    if (rank < 2) line["stream_seconds"] = stream_seconds(stream, rank == 1, data);
    line["fp32_seconds"] = reduce_seconds(membership.group(), data, Wire::kFp32);
    line["bf16_seconds"] = reduce_seconds(membership.group(), data, Wire::kBf16);
    if (rank == 0) {
      std::puts(one_line(line).c_str());
      std::fflush(stdout);
    }
  }
  membership.leave();
}

}  // namespace
}  // namespace reigen

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  reigen::ignore_broken_pipes();
  try {
    std::vector<double> megabytes;
    for (int i = 6; i < argc; ++i) megabytes.push_back(std::atof(argv[i]));
    reigen::run(std::atoi(argv[1]), std::atoi(argv[2]), argv[3],
                reigen::parse_endpoints(argv[4]).front(), argv[5], megabytes);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
