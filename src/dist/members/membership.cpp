#include "dist/members/membership.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "config/schema.h"
#include "dist/group/mesh_group.h"
#include "dist/group/single_group.h"
#include "dist/members/continue_request.h"
#include "dist/members/member_json.h"

namespace reigen {
namespace {

constexpr std::chrono::milliseconds kLastLeaves{2'000};
constexpr std::chrono::milliseconds kTakeWithin{50};
// A forming that takes longer because no quorum is here is a pause; a notice of it, once a minute.
constexpr std::chrono::milliseconds kPausedAfter{2'000};
constexpr std::chrono::milliseconds kPauseNotice{60'000};

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
  if (options_.elastic) accept_continue_requests();
  choose_interface();
  join();
  members_ = control_->members();
  const Member& self = members_[static_cast<size_t>(control_->rank())];
  if (options_.interface.empty() && self.address != interface_.address) {
    interface_ = interface_with(self.address);  // the one that reached the rendezvous
  }
  if (control_->size() == 1 && !options_.elastic) {
    group_ = make_single_group(options_.epoch);
    return;
  }
  try {
    open_listeners();
    if (options_.elastic) open_standby();
    group_ = make_group();
  } catch (const CommError& e) {
    control_->report_error(e.what());
    control_->leave();
    if (interface_note_.empty()) throw;
    throw CommError(format("{}; {}", e.what(), interface_note_));
  }
  watch_losses();
}

Membership::Membership(MembershipOptions options, const JobToJoin& job)
    : options_(std::move(options)), encryption_(options_.encrypt, options_.token) {
  if (options_.host.empty()) options_.host = host_name();
  options_.elastic = true;
  accept_continue_requests();
  for (const Member& member : job.at.members) {
    options_.rendezvous.push_back({member.address, member.standby});
  }
  choose_interface();
  Member self{.id = new_worker(job.number), .host = options_.host, .address = interface_.address};
  listener_ = listen_on(self.address, 0);
  standby_listener_ = listen_on(self.address, 0);
  self.port = port_of(listener_);
  self.standby = port_of(standby_listener_);
  StandbyOptions standby = {.token = options_.token,
                            .first_forming = job.first_forming,
                            .encryption = encryption_,
                            .silence = options_.silence,
                            .stall = options_.timeout,
                            .witness = options_.witness,
                            .parent = std::move(options_.parent)};
  standby_ =
      std::make_unique<Standby>(std::move(standby), std::move(standby_listener_), self, job.at);
  MembershipChange change;
  await_next(change);
}

// The group is closed at once, so that no operation waits for a lost worker.
void Membership::watch_losses() {
  Group* group = group_.get();
  const auto close = [group](const CommStatus& why) { group->close(why); };
  if (standby_) return standby_->on_forming(forming_id(), close);
  control_->on_departure([close](const Departure& departure) {
    if (!departure.status.ok()) close(departure.status);
  });
}

void Membership::open_standby() {
  witness_ = options_.witness;
  StandbyOptions standby = {.token = options_.token,
                            .first_forming = forming_id(),
                            .encryption = encryption_,
                            .silence = options_.silence,
                            .stall = options_.timeout,
                            .witness = witness_,
                            .parent = std::move(options_.parent)};
  standby_ = std::make_unique<Standby>(std::move(standby), std::move(standby_listener_), members_,
                                       control_->rank());
  Standby* watcher = standby_.get();
  control_->on_departure([watcher, id = forming_id()](const Departure& departure) {
    watcher->notice(id, departure, true);
  });
}

void Membership::join() {
  if (options_.listener.open()) {
    const ServerOptions server = {.size = options_.size,
                                  .epoch = options_.epoch,
                                  .elastic = options_.elastic,
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

// Every worker listens on its address for data alone, and in an elastic job for the next forming,
// and learns the ports of all others.
void Membership::open_listeners() {
  const auto key = [this](int rank) { return format("port/{}/{}", options_.epoch, rank); };
  const int own = control_->rank();
  Member& self = members_[static_cast<size_t>(own)];
  listener_ = listen_on(self.address, 0);
  self.port = port_of(listener_);
  if (options_.elastic) {
    standby_listener_ = listen_on(self.address, 0);
    self.standby = port_of(standby_listener_);
  }
  control_->set(key(own), format("{} {}", self.port, self.standby));
  for (Member& member : members_) {
    if (member.rank == own) continue;
    const auto port = control_->get(key(member.rank), options_.start_within);
    check_others();
    if (!port) {
      throw CommError(format("{} published no port for data within {:.3g} s (--start-within)",
                             rank_and_host(member.rank, member.host),
                             seconds_of(options_.start_within)));
    }
    const size_t space = port->find(' ');
    member.port = static_cast<int>(parse_integer(port->substr(0, space), 1, 65535));
    member.standby = static_cast<int>(parse_integer(port->substr(space + 1), 0, 65535));
  }
}

void Membership::check_others() const {
  if (const auto error = control_->first_error()) {
    throw CommError(
        format("{} ended with an error: {}", rank_and_host(error->rank, error->host), error->text));
  }
  if (const auto loss = control_->loss()) throw CommError(describe(*loss));
}

std::unique_ptr<Group> Membership::make_group() {
  if (control_->size() == 1) return make_single_group(options_.epoch);
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
    if (!group_) check_interrupt();  // later ones end at the next step
    check_others();
    if (standby_ && !standby_->stands(forming_id())) throw CommError("a worker was lost");
  };
  mesh.timeout = options_.timeout;
  mesh.silence = options_.silence;
  return make_mesh_group(mesh, options_.epoch, encrypted_peers_);
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
  if (control_) control_->on_departure(nullptr);
  standby_.reset();  // first: this worker joins no forming any more
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

bool Membership::withdraw() { return standby_->withdraw(forming_id()); }

void Membership::leave_alone(int leaving) {
  standby_->on_forming(forming_id(), nullptr);
  control_->leave();
  // A server here has to pass all of them on to the others, which it does before it ends.
  const auto deadline = CommClock::now() + kLastLeaves;
  while (server_ && server_->left() < leaving && CommClock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  server_.reset();
  group_->close(CommStatus::closed("this worker has left"));
}

// Its own word may come later than the end of its process is noticed.
void Membership::note_left(int rank) {
  CommStatus left;
  left.rank = rank;
  left.host = members_[static_cast<size_t>(rank)].host;
  left_.insert(members_[static_cast<size_t>(rank)].id);
  standby_->notice(forming_id(), {left, false}, true);
}

CommStatus Membership::leave() {
  if (standby_) standby_->leave();
  CommStatus left = group_->leave();
  control_->leave();
  // The next membership may have been formed already, because others lost a worker.
  const auto next = standby_ ? standby_->take({}) : nullptr;
  if (next) next->control->leave();
  // The other workers are about to leave, too, and need the rendezvous until then.
  const auto deadline = CommClock::now() + kLastLeaves;
  while (server_ && server_->left() < control_->size() && CommClock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return elastic() ? CommStatus() : left;
}

std::unique_ptr<FormedMembership> Membership::next_membership(MembershipChange& change) {
  const Stopwatch watch;
  std::optional<CommClock::time_point> warned;
  bool told = !control_;  // a new process
  while (true) {
    const auto tell_of_others = [&](const std::string& excluded) {
      if (excluded.empty() || std::exchange(told, true)) return;
      log_warning(format("{}; it asks to be added to them again", excluded));
    };
    if (auto next = standby_->take(kTakeWithin)) {
      tell_of_others(next->left_out);
      return next;
    }
    const Standby::Waiting waiting = standby_->waiting();
    if (!waiting.over.empty()) throw CommError(waiting.over);
    const bool left_out = !waiting.excluded.empty();
    tell_of_others(waiting.excluded);
    const bool paused = !waiting.why.empty() && waiting.since > kPausedAfter;
    const bool late = watch.seconds() > seconds_of(options_.silence + kPausedAfter);
    if ((paused || late || left_out) && interrupt_requested()) {
      throw Interrupted("stopped by a signal while the workers of this job were lost");
    }
    const bool limited = options_.pause_limit.count() > 0;
    if (left_out && limited && waiting.since > options_.pause_limit) {
      throw CommError(format("{}, and did not add it within {:.3g} s (--pause)", waiting.excluded,
                             seconds_of(options_.pause_limit)));
    }
    if (!paused) continue;
    if (!needs_others_) throw CommError(waiting.why);
    change.paused = watch.seconds();
    if (continue_requested() && warned) {
      log_warning("continuing without the workers that are not here, as `reigen continue` asked");
      standby_->trust_that_others_ended();
    }
    if (!warned || CommClock::now() - *warned > kPauseNotice) {
      warned = CommClock::now();
      warn_of_pause(waiting);
    }
    if (limited && waiting.since > options_.pause_limit) {
      throw CommError(format("paused for {:.3g} s (--pause): {}", seconds_of(options_.pause_limit),
                             waiting.why));
    }
  }
}

void Membership::warn_of_pause(const Standby::Waiting& waiting) const {
  log_warning(format(
      "paused on worker {} ({}): {}{}. If all workers that are not connected to this one have "
      "ended: reigen continue {}, on this host",
      self().id.number, self().host, waiting.why,
      waiting.missing.empty() ? "" : "; no answer from " + waiting.missing, getpid()));
}

// False if no group can be formed in this membership: a further worker is lost.
bool Membership::adopt(std::unique_ptr<FormedMembership> next) {
  if (control_) control_->on_departure(nullptr);
  control_ = std::move(next->control);
  server_ = std::move(next->server);
  members_ = std::move(next->members);
  options_.epoch = next->epoch;
  has_state_ = !next->stateless;
  has_added_ = next->has_added;
  witness_ = next->witness;
  std::unique_ptr<Group> group;
  try {
    group = make_group();
  } catch (const UnreachablePeer& e) {
    const std::string& host = members_[static_cast<size_t>(e.rank)].host;
    standby_->notice(forming_id(), {CommStatus::lost(e.rank, host, e.what()), true}, true);
    return false;
  } catch (const CommError& e) {
    standby_->notice(forming_id(), {CommStatus::closed(e.what())}, false);
    return false;
  }
  if (group_) old_groups_.push_back(std::move(group_));
  group_ = std::move(group);
  watch_losses();
  return true;
}

// The reasons of those that are not in it.
std::map<WorkerId, LossReason> Membership::await_next(MembershipChange& change) {
  std::map<WorkerId, LossReason> reasons;
  for (bool adopted = false; !adopted;) {
    std::unique_ptr<FormedMembership> next = next_membership(change);
    reasons.insert(next->reasons.begin(), next->reasons.end());
    if (const auto error = control_ ? control_->first_error() : std::nullopt) {
      const Member& failed = members_.at(static_cast<size_t>(error->rank));
      reasons[failed.id].why = format("it ended with an error: {}", error->text);
    }
    adopted = adopt(std::move(next));
  }
  return reasons;
}

MembershipChange Membership::form_next(const CommStatus& noticed) {
  const Stopwatch watch;
  MembershipChange change;
  const std::vector<Member> before = members_;
  const std::string witness = witness_;
  const CommStatus why = noticed.ok() ? CommStatus::closed("a worker was lost") : noticed;
  standby_->on_forming(forming_id(), nullptr);
  group_->close(why);
  group_->drain();
  // Connections also close because other workers close theirs: only silence names the lost one.
  const bool silent = why.state == CommState::kUnreachable;
  standby_->notice(forming_id(), {why, silent}, silent);
  std::map<WorkerId, LossReason> reasons = await_next(change);
  for (const Member& member : before) {
    const bool here = std::any_of(members_.begin(), members_.end(),
                                  [&](const Member& other) { return other.id == member.id; });
    if (here) continue;
    LossReason reason = reasons[member.id];
    if (left_.contains(member.id)) reason = {.why = "it left", .proven = true, .left = true};
    change.lost.push_back({member, reason});
  }
  left_.clear();
  for (const Member& member : members_) {
    const bool known = std::any_of(before.begin(), before.end(),
                                   [&](const Member& other) { return other.id == member.id; });
    if (!known) change.joined.push_back(member);
  }
  change.seconds = watch.seconds();
  for (const MembershipChange::Lost& lost : change.lost) {
    if (lost.reason.left) {
      log_note(format("worker {} ({}) left", lost.member.id.number, lost.member.host));
      continue;
    }
    log_note(format("lost worker {} ({}): {}", lost.member.id.number, lost.member.host,
                    lost.reason.why));
  }
  for (const Member& member : change.joined) {
    log_note(format("worker {} ({}) joined", member.id.number, member.host));
  }
  if (witness_ != witness) log_note(tie_note());
  log_note(format("training continues with {} in epoch {}; forming it took {:.2f} s",
                  counted(members_.size(), "worker"), options_.epoch, change.seconds));
  return change;
}

std::string Membership::tie_note() const {
  if (!witness_.empty()) return "the launcher is the witness of this job again: it breaks ties";
  return format(
      "without the launcher as a witness: from now on half of the workers may continue if worker "
      "{} "
      "({}) is among them",
      members_.front().id.number, members_.front().host);
}

void Membership::received_state() {
  has_state_ = true;
  if (standby_) standby_->received_state();
}

void Membership::set_welcome(std::string text) {
  if (standby_) standby_->set_welcome(std::move(text));
}

void Membership::set_writing(const WritingClaim& claim) {
  if (standby_) standby_->set_writing(claim);
}

}  // namespace reigen
