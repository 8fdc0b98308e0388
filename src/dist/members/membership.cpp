#include "dist/members/membership.h"

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "config/schema.h"
#include "dist/group/mesh_group.h"
#include "dist/group/single_group.h"
#include "dist/members/member_json.h"

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

Membership::Membership(MembershipOptions options)
    : options_(std::move(options)), encryption_(options_.encrypt, options_.token) {
  if (options_.host.empty()) options_.host = host_name();
  choose_interface();
  join();
  members_ = control_->members();
  const Member& self = members_[static_cast<size_t>(control_->rank())];
  if (options_.interface.empty() && self.address != interface_.address) {
    interface_ = interface_with(self.address);  // the one that reached the rendezvous
  }
  if (control_->size() == 1) {
    group_ = make_single_group(options_.epoch);
    return;
  }
  try {
    open_listener();
    form_group();
  } catch (const CommError& e) {
    control_->report_error(e.what());
    control_->leave();
    if (interface_note_.empty()) throw;
    throw CommError(format("{}; {}", e.what(), interface_note_));
  }
  Group* group = group_.get();
  control_->on_loss([group](const CommStatus& loss) { group->close(loss); });
}

void Membership::join() {
  if (options_.listener.open()) {
    const ServerOptions server = {.size = options_.size,
                                  .epoch = options_.epoch,
                                  .rendezvous_rank = options_.rendezvous_rank,
                                  .token = options_.token,
                                  .encryption = encryption_,
                                  .hosts = options_.hosts,
                                  .start_within = options_.start_within,
                                  .silence = options_.silence};
    const int port = port_of(options_.listener);
    server_ = std::make_unique<RendezvousServer>(server, std::move(options_.listener));
    if (options_.rendezvous.empty()) options_.rendezvous = {{interface_.address, port}};
  }
  JoinOptions join;
  join.worker = new_worker(options_.rank);
  join.at = options_.rendezvous;
  join.token = options_.token;
  join.encryption = encryption_;
  join.rank = options_.rank;
  join.size = options_.size;
  join.epoch = options_.epoch;
  join.host = options_.host;
  if (!options_.interface.empty()) join.address = interface_.address;
  join.facts = options_.facts;
  join.start_within = options_.start_within;
  join.silence = options_.silence;
  control_ = std::make_unique<ControlChannel>(join);
}

// Every worker listens on its address for data alone, and learns the ports of all others.
void Membership::open_listener() {
  const auto key = [this](int rank) { return format("port/{}/{}", options_.epoch, rank); };
  const int own = control_->rank();
  listener_ = listen_on(members_[static_cast<size_t>(own)].address, 0);
  members_[static_cast<size_t>(own)].port = port_of(listener_);
  control_->set(key(own), std::to_string(port_of(listener_)));
  for (Member& member : members_) {
    if (member.rank == own) continue;
    const auto port = control_->get(key(member.rank), options_.start_within);
    check_others();
    if (!port) {
      throw CommError(format("{} published no port for data within {:.3g} s (--start-within)",
                             rank_and_host(member.rank, member.host),
                             seconds_of(options_.start_within)));
    }
    member.port = static_cast<int>(parse_integer(*port, 1, 65535));
  }
}

void Membership::check_others() const {
  if (const auto error = control_->first_error()) {
    throw CommError(
        format("{} ended with an error: {}", rank_and_host(error->rank, error->host), error->text));
  }
  if (const auto loss = control_->loss()) throw CommError(describe(*loss));
}

void Membership::form_group() {
  MeshOptions mesh;
  mesh.forming.rank = control_->rank();
  mesh.forming.size = control_->size();
  mesh.forming.listener = &listener_;
  for (const Member& member : members_) {
    mesh.forming.peers.push_back({member.address, member.port});
    mesh.forming.hosts.push_back(member.host);
    mesh.machines.push_back(member.machine());
  }
  mesh.forming.token = options_.token;
  mesh.forming.id = format("{} {}", options_.epoch, control_->forming_id());
  mesh.forming.encryption = encryption_;
  mesh.forming.within = options_.start_within;
  mesh.forming.reach_within = std::min(options_.silence, options_.start_within * 9 / 10);
  mesh.forming.check = [this] {
    check_interrupt();
    check_others();
  };
  mesh.timeout = options_.timeout;
  mesh.silence = options_.silence;
  group_ = make_mesh_group(mesh, options_.epoch, encrypted_peers_);
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
  if (status.state == CommState::kOk || status.state == CommState::kClosed) return status;
  // A missing heartbeat is noticed after `silence`; the notice itself takes a little longer. A link
  // without acknowledgements was watched for that long already.
  const auto notice = options_.silence / 5;
  const bool watched = status.state == CommState::kUnreachable;
  const auto known = control_->wait_for_loss(watched ? notice : options_.silence + notice);
  return known.value_or(status);
}

std::string Membership::encryption() const {
  if (encrypted_peers_ > 0 || options_.encrypt == Encrypt::kOn) return "TLS 1.3";
  const bool one_machine = std::all_of(members_.begin(), members_.end(), [this](const Member& m) {
    return m.machine() == members_.front().machine();
  });
  return one_machine || options_.encrypt != Encrypt::kOff ? "" : "none (--encrypt off)";
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
  const Member& host = members_[static_cast<size_t>(survivors.front())];
  MembershipOptions next;
  next.rank = static_cast<int>(own - survivors.begin());
  next.size = static_cast<int>(survivors.size());
  next.epoch = options_.epoch + 1;
  next.rendezvous = {{host.address, host.port}};
  if (next.rank == 0) next.listener = std::move(listener_);
  next.token = options_.token;
  next.secret = options_.secret;
  next.encrypt = options_.encrypt;
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
