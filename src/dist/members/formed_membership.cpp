#include "dist/members/formed_membership.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

// Two connected ends inside this process: its own connection to the server that it hosts.
std::pair<Channel, Channel> own_connection() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    throw CommError(format("cannot make a pair of sockets: {}", errno_text(errno)));
  }
  return {Channel(Socket(ends[0])), Channel(Socket(ends[1]))};
}

// The host's connections to all members, itself included.
std::vector<ServedMember> served_members(const FormedMembership& formed, PeerLinks& links,
                                         Channel own) {
  std::vector<ServedMember> served;
  for (const Member& member : formed.members) {
    ServedMember& one = served.emplace_back();
    one.rank = member.rank;
    one.host = member.host;
    if (member.rank == formed.rank) continue;
    if (auto taken = links.take(member.id)) {
      one.channel = std::move(taken->channel);
      one.unread = std::move(taken->unread);
      one.unsent = std::move(taken->unsent);
    }
  }
  served.at(static_cast<size_t>(formed.rank)).channel = std::move(own);
  return served;
}

}  // namespace

void connect_control(FormedMembership& formed, PeerLinks& links, const WorkerId& host,
                     std::chrono::milliseconds silence) {
  FormedControl control;
  control.rank = formed.rank;
  control.members = formed.members;
  control.forming_id = formed.id;
  control.silence = silence;
  for (const Member& member : formed.members) {
    if (member.id == host) control.server_rank = member.rank;
  }
  if (control.server_rank == formed.rank) {
    auto [client, server] = own_connection();
    control.channel = std::move(client);
    const ServerOptions options = {.size = static_cast<int>(formed.members.size()),
                                   .epoch = formed.epoch,
                                   .elastic = true,
                                   .silence = silence};
    formed.server = std::make_unique<RendezvousServer>(
        options, served_members(formed, links, std::move(server)));
  } else if (auto taken = links.take(host)) {
    control.channel = std::move(taken->channel);
    control.unread = std::move(taken->unread);
    control.unsent = std::move(taken->unsent);
  }
  formed.control = std::make_unique<ControlChannel>(std::move(control));
}

}  // namespace reigen
