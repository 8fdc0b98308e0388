#include "dist/members/membership.h"

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "dist/group/gloo_group.h"
#include "dist/group/single_group.h"

namespace reigen {
namespace {

constexpr std::chrono::milliseconds kLastLeaves{2'000};

// The first address of the rendezvous that has a route.
std::string reachable_peer(const MembershipOptions& options) {
  for (const Endpoint& endpoint : options.rendezvous) {
    try {
      address_towards(endpoint.host);
      return endpoint.host;
    } catch (const CommError&) {
      // try the next one
    }
  }
  return options.rendezvous.empty() ? "127.0.0.1" : options.rendezvous.front().host;
}

}  // namespace

Membership::Membership(MembershipOptions options) : options_(std::move(options)) {
  if (options_.host.empty()) options_.host = host_name();
  choose_interface();
  standby_ = listen_on("", 0);
  if (options_.listener.open()) {
    const ServerOptions server = {.size = options_.size,
                                  .epoch = options_.epoch,
                                  .host_rank = options_.host_rank,
                                  .token = options_.token,
                                  .hosts = options_.hosts,
                                  .start_within = options_.start_within,
                                  .silence = options_.silence};
    const int port = port_of(options_.listener);
    server_ = std::make_unique<RendezvousServer>(server, std::move(options_.listener));
    if (options_.rendezvous.empty()) options_.rendezvous = {{interface_.address, port}};
  }
  JoinOptions join;
  join.at = options_.rendezvous;
  join.token = options_.token;
  join.rank = options_.rank;
  join.size = options_.size;
  join.epoch = options_.epoch;
  join.host = options_.host;
  if (!options_.interface.empty()) join.address = interface_.address;
  join.port = port_of(standby_);
  join.facts = options_.facts;
  join.start_within = options_.start_within;
  join.silence = options_.silence;
  control_ = std::make_unique<Rendezvous>(join);

  const Member& self = control_->members()[static_cast<size_t>(control_->rank())];
  if (options_.interface.empty() && self.address != interface_.address) {
    interface_ = interface_with(self.address);  // the one that reached the rendezvous
  }

  if (control_->size() == 1) {
    group_ = make_single_group(options_.epoch);
    return;
  }
  MeshOptions mesh;
  mesh.rank = control_->rank();
  mesh.size = control_->size();
  mesh.address = interface_.address;
  for (const Member& member : control_->members()) {
    mesh.hosts.push_back(member.host);
    mesh.machines.push_back(member.machine());
  }
  mesh.prefix = format("mesh/{}/", options_.epoch);
  mesh.secret = options_.token;
  mesh.connect_timeout = options_.start_within;
  mesh.timeout = options_.timeout;
  try {
    group_ = make_gloo_group(mesh, *control_, options_.epoch);
  } catch (const CommError& e) {
    if (interface_note_.empty()) throw;
    throw CommError(format("{}; {}", e.what(), interface_note_));
  }
  Group* group = group_.get();
  control_->on_loss([group](const CommStatus& loss) { group->close(loss); });
}

void Membership::choose_interface() {
  const std::string peer = reachable_peer(options_);
  interface_ = interface_towards(peer);
  if (options_.interface.empty()) return;
  const NetworkInterface natural = interface_;
  interface_ = interface_named(options_.interface, natural.address);
  // Every interface reaches this machine itself.
  if (natural.name == interface_.name || is_this_host(peer)) return;
  interface_note_ = format("--interface is {}, but the route to {} is through {}",
                           describe(interface_), peer, describe(natural));
  if (interface_.name == "lo") {
    throw ConfigError(format("--interface lo reaches no other host: {}", interface_note_));
  }
}

Membership::~Membership() {
  control_->on_loss(nullptr);
  group_.reset();
  control_.reset();
}

CommStatus Membership::explain(const CommStatus& status) const {
  if (status.state != CommState::kLostPeer && status.state != CommState::kTimeout) return status;
  // A missing heartbeat is noticed after `silence`; the notice itself takes a little longer.
  const auto known = control_->wait_for_loss(options_.silence + options_.silence / 5);
  return known.value_or(status);
}

CommStatus Membership::leave() {
  CommStatus left = group_->leave();
  control_->leave();
  // The other workers are about to leave, too, and need the rendezvous until then.
  const auto deadline = CommClock::now() + kLastLeaves;
  while (server_ && server_->left() < control_->size() && CommClock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return left;
}

MembershipOptions Membership::next_epoch(const std::vector<int>& survivors) {
  const auto own = std::find(survivors.begin(), survivors.end(), control_->rank());
  if (own == survivors.end())
    throw std::logic_error("next_epoch: this rank is not among the survivors");
  group_->close(CommStatus::closed("a new group is formed"));
  const Member& host = control_->members()[static_cast<size_t>(survivors.front())];
  MembershipOptions next;
  next.rank = static_cast<int>(own - survivors.begin());
  next.size = static_cast<int>(survivors.size());
  next.epoch = options_.epoch + 1;
  next.rendezvous = {{host.address, host.port}};
  if (next.rank == 0) next.listener = std::move(standby_);
  next.token = options_.token;
  for (int rank : survivors) {
    next.hosts.push_back(control_->members()[static_cast<size_t>(rank)].host);
  }
  next.host = options_.host;
  next.interface = options_.interface;
  next.facts = options_.facts;
  next.start_within = options_.start_within;
  next.silence = options_.silence;
  next.timeout = options_.timeout;
  return next;
}

}  // namespace reigen
