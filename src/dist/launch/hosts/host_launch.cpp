#include "dist/launch/hosts/host_launch.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <list>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "dist/launch/hosts/agent_protocol.h"
#include "dist/launch/hosts/host_connections.h"
#include "dist/launch/hosts/host_returns.h"
#include "dist/launch/hosts/hosts_file.h"
#include "dist/launch/launch.h"
#include "dist/launch/restarts.h"
#include "dist/launch/secret.h"
#include "dist/launch/worker_restarts.h"
#include "dist/members/parent_pipe.h"
#include "dist/net/message.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

class Launch {
 public:
  explicit Launch(const HostLaunch& options)
      : options_(options),
        connections_(options),
        restarts_(options.elastic ? options.restarts : nullptr),
        watched_(options.elastic ? options.hosts_file : "", options.listed) {}

  LaunchResult run() {
    connections_.connect();
    if (!options_.run.empty()) choose_first_host();
    for (RemoteHost& host : hosts_) {
      host.set_first_rank(size_);
      size_ += host.slots().workers;
    }
    start(open_rendezvous(hosts_.front()));
    attend();
    show_status("");
    LaunchResult result = failure_ && !succeeded_ ? *failure_ : LaunchResult();
    result.checkpoint = checkpoint_;
    result.restored = restored_;
    result.leaving = leaving_;
    result.unseen = unseen_;
    return result;
  }

 private:
  struct RunOnHost {
    bool exists = false;
    std::optional<uint64_t> checkpoint;  // the last one
  };

  std::map<const RemoteHost*, RunOnHost> find_run() {
    std::map<const RemoteHost*, RunOnHost> found;
    for (RemoteHost& host : hosts_) {
      host.send({{"kind", "find_run"}, {"run", options_.run}, {"folder", folder_here()}});
    }
    connections_.allow(options_.connect_within);
    connections_.for_usable([&](RemoteHost& host) {
      const Json answer = connections_.expect(host, "run");
      found[&host] = {answer.value("exists", false), number_field(answer, "step")};
    });
    return found;
  }

  // Of a restart, rank 0 goes to the first host that has the latest checkpoint of the run.
  void choose_first_host() {
    auto found = find_run();
    auto first = hosts_.begin();
    if (options_.restart) {
      first = std::max_element(first, hosts_.end(), [&](const RemoteHost& a, const RemoteHost& b) {
        return found[&a].checkpoint < found[&b].checkpoint;
      });
    }
    checkpoint_ = found[&*first].checkpoint;
    const StartFrom from = start_from(
        {.heard_of = options_.checkpoint,
         .found = checkpoint_,
         .directory = std::any_of(found.begin(), found.end(),
                                  [](const auto& on_host) { return on_host.second.exists; }),
         .copied = !options_.copy.empty()});
    if (from == StartFrom::kAnyCopy) {
      first = restore_copy(format("no host has a run in {}", options_.run), false);
    } else if (from != StartFrom::kDirectory) {
      const std::string missing = format("no usable host has the checkpoint of step {} of {}",
                                         with_commas(*options_.checkpoint), options_.run);
      if (from == StartFrom::kNothing) throw CommError(missing);
      first = restore_copy(missing, true);
    }
    hosts_.splice(hosts_.begin(), hosts_, first);
  }

  // The first host that can make the run from the second copy of its last checkpoint. If none can,
  // and the run does not need it, the first host, where the run begins.
  std::list<RemoteHost>::iterator restore_copy(std::string missing, bool needed) {
    bool found_none = false;
    for (auto host = hosts_.begin(); host != hosts_.end(); ++host) {
      const std::string& name = host->slots().host;
      host->send({{"kind", "restore"},
                  {"place", options_.copy},
                  {"ssh_user", options_.ssh.user},
                  {"ssh_port", options_.ssh.port},
                  {"run", options_.run},
                  {"folder", folder_here()}});
      constexpr std::chrono::hours kLongest{1};  // a large model over a slow link
      connections_.allow(kLongest);
      const Json answer = connections_.expect(*host, "restored");
      if (const auto step = number_field(answer, "step")) {
        restored_ = checkpoint_ = step;
        log_warning(format("{}; it continues on host {} from the copy in {}, of step {}", missing,
                           name, options_.copy, with_commas(*checkpoint_)));
        return host;
      }
      const auto why = text_field(answer, "text");
      missing += why ? format("; the copy cannot be restored on {}: {}", name, *why)
                     : format("; {} has no copy on {}", options_.copy, name);
      // The first checkpoint of a run that begins anew would replace it.
      if (!needed && answer.value("damaged", false)) throw CheckpointError(missing);
      found_none = found_none || !why;
    }
    if (needed) throw CommError(missing);
    if (!found_none) log_warning(missing + "; the run begins with its first step");
    return hosts_.begin();
  }

  std::string open_rendezvous(RemoteHost& first) {
    first.send({{"kind", "listen"}, {"one_host", hosts_.size() == 1 && watched_.path().empty()}});
    connections_.allow(options_.connect_within);
    const Json listening = connections_.expect(first, "listening");
    std::string at;
    for (const Json& endpoint : listening.value("at", Json::array())) {
      at += (at.empty() ? "" : ",") + endpoint.get<std::string>();
    }
    if (at.empty()) {
      throw CommError(
          format("host {} has no address that other hosts can reach", first.slots().host));
    }
    return at;
  }

  void start(const std::string& rendezvous) {
    rendezvous_ = rendezvous;
    token_ = token_of_new_job();
    if (options_.elastic) witness_id_ = new_witness_id();
    for (RemoteHost& host : hosts_) {
      for (int i = 0; i < host.slots().workers; ++i) {
        const int rank = host.first_rank() + i;
        host.running[rank] = {.mark = "", .number = rank};
      }
      host.send(start_message(host));
    }
  }

  Json start_message(const RemoteHost& host) const {
    std::string names;
    for (const RemoteHost& each : hosts_) {
      for (int i = 0; i < each.slots().workers; ++i) {
        names += (names.empty() ? "" : ",") + each.slots().host;
      }
    }
    return {{"kind", "start"},
            {"token", token_},
            {"rendezvous", rendezvous_},
            {"hosts", names},
            {"size", size_},
            {"depth", launch_depth() + 1},
            {"first_rank", host.first_rank()},
            {"workers", host.slots().workers},
            {"elastic", options_.elastic},
            {"witness", witness_id_},
            {"lingers", lingers()},
            {"may_grow", !watched_.path().empty()},
            {"longest_wait", options_.grace.longest_wait.count()},
            {"folder", folder_here()},
            {"run", options_.run},
            {"width", stderr_is_terminal() ? terminal_width() : -1},
            {"rank0_environment", options_.rank0_environment},
            {"arguments", options_.arguments}};
  }

  // Agents without workers wait for one that is started again.
  bool lingers() const {
    return restarts_.possible() || (!watched_.path().empty() && !restarts_.ended());
  }

  static bool works(const RemoteHost& host) { return !host.done && !host.running.empty(); }

  void attend() {
    bool stopped = false;
    while (std::any_of(hosts_.begin(), hosts_.end(), [](const RemoteHost& h) { return !h.done; })) {
      wait_for_any();
      for (RemoteHost& host : hosts_) {
        if (!host.done) attend(host);
      }
      follow_file();
      start_again();
      end_idle();
      connections_.beat();
      if (interrupt_requested() && !stopped) {
        stopped = true;
        restarts_.end();
        const milliseconds limit = options_.grace.after_stop;
        connections_.send_to_all({{"kind", "stop"}, {"limit", limit.count()}});
        for (RemoteHost& host : hosts_) {
          host.waits_until.reset();  // a signal ends a wait
          end_within(host, limit);
        }
      }
      enforce();
    }
  }

  void wait_for_any() {
    std::vector<pollfd> waiting;
    for (RemoteHost& host : hosts_) {
      if (host.done && !host.answer_by) continue;
      waiting.push_back({host.process().out().fd(), POLLIN, 0});
      waiting.push_back({host.process().err().fd(), POLLIN, 0});
    }
    constexpr int kTick = 100;
    poll(waiting.data(), waiting.size(), kTick);
  }

  void attend(RemoteHost& host) {
    const auto code = host.process().ended();
    for (const Json& message : HostConnections::receive(host)) handle(host, message);
    if (!code || (host.running.empty() && !lingers())) return;
    host.done = true;
    const LaunchResult result{
        static_cast<int>(ExitCode::kComm), -1, host.slots().host,
        format("the ssh connection ended ({})",
               host.last_line().empty() ? format("status {}", *code) : host.last_line())};
    if (!options_.elastic) return fail(result);
    if (!host.running.empty()) lose_host(host, result);
    const bool needed = restarts_.possible() || !host.wanted.empty();
    if (lingers() && needed && is_missed(host)) returns_.lose(host, result.error);
  }

  // Its workers may still train.
  void lose_host(const RemoteHost& host, const LaunchResult& result) {
    unseen_.push_back(host.slots().host);
    for (const auto& [rank, worker] : host.running) restarts_.forget_address(rank);
    lose_one(result, false);
  }

  // Whether workers ran there, or are to be started there.
  bool is_missed(const RemoteHost& host) const {
    if (host.removed) return false;
    bool missed = !host.running.empty() || !host.wanted.empty();
    for (int i = 0; i < host.slots().workers; ++i) {
      missed = missed || restarts_.pending(host.first_rank() + i);
    }
    return missed;
  }

  // Hosts on which nothing runs: none of them is needed once nothing runs at all.
  void end_idle() {
    const bool over = !lingers() || std::none_of(hosts_.begin(), hosts_.end(), works);
    for (RemoteHost& host : hosts_) {
      if (!over || host.done || !host.running.empty()) continue;
      host.send({{"kind", "end"}});
      host.done = true;
    }
  }

  // Lost workers of an elastic job, also on hosts that have returned.
  void start_again() {
    if (!lingers()) return;
    for (RemoteHost& host : hosts_) {
      if (host.done && returns_.attend(host)) use_again(host);
      for (const int rank : std::exchange(host.wanted, {})) start_joiner(host, rank);
    }
    for (const int rank : restarts_.due(Clock::now())) start_joiner(owner_of(rank), rank);
    const auto trains = [](const RemoteHost& host) {
      return !host.done && std::any_of(host.running.begin(), host.running.end(),
                                       [](const auto& worker) { return !worker.second.joins; });
    };
    if (std::none_of(hosts_.begin(), hosts_.end(), trains)) end_all();  // there is no job to join
  }

  // Changes of the hosts file.
  void follow_file() {
    if (!lingers()) return;
    const auto changes = watched_.poll(Clock::now());
    if (!changes) return;
    for (const HostSlots& host : changes->added) add_host(host);
    for (const std::string& name : changes->removed) remove_host(name);
    for (const std::string& name : changes->resized) {
      log_warning(format(
          "{}: the number of workers of {} stays as it is until the job starts again, or the host "
          "is removed and added",
          watched_.path(), name));
    }
  }

  // It is asked like a host that comes back.
  void add_host(const HostSlots& slots) {
    RemoteHost& host = hosts_.emplace_back(slots);
    host.set_first_rank(size_);
    for (int i = 0; i < slots.workers; ++i) host.wanted.insert(size_++);
    host.done = true;
    host.ask_at = Clock::now();
    log_note(format("host {} was added to {}: {} will join the others", slots.host, watched_.path(),
                    counted(static_cast<uint64_t>(slots.workers), "worker")));
  }

  void remove_host(const std::string& name) {
    for (RemoteHost& host : hosts_) {
      if (host.slots().host != name || host.removed) continue;
      host.removed = true;
      host.wanted.clear();
      host.ask_at.reset();
      if (host.answer_by) host.disconnect();
      host.answer_by.reset();
      if (!host.done) host.send({{"kind", "drain"}});
      const bool unseen = host.done && !host.running.empty();
      log_note(format(
          "host {} was removed from {}: its workers {}", name, watched_.path(),
          unseen ? "cannot be told to leave, because the connection has ended" : "leave the job"));
    }
  }

  void start_joiner(RemoteHost& host, int rank) {
    if (host.removed) return;
    const bool possible = !host.done && !restarts_.addresses().empty();
    if (!possible) {
      host.wanted.insert(rank);
      return;
    }
    Json message = start_message(host);
    message["join"] = restarts_.addresses();
    message["only"] = rank;
    host.running[rank] = {.mark = "", .number = rank, .joins = true};
    host.send(message);
  }

  RemoteHost& owner_of(int rank) {
    return *std::find_if(hosts_.begin(), hosts_.end(),
                         [&](const RemoteHost& host) { return host.owns(rank); });
  }

  // The host has returned.
  void use_again(RemoteHost& host) {
    host.done = false;
    host.waits_until.reset();
    std::erase(unseen_, host.slots().host);
    for (const auto& [rank, worker] : std::exchange(host.running, {})) {
      note_end(host, {.rank = rank,
                      .code = static_cast<int>(ExitCode::kComm),
                      .error = "it ended while its host could not be reached",
                      .joined = true,
                      .number = worker.number});
    }
  }

  void note_end(const RemoteHost& host, const WorkerEnd& end) {
    if (succeeded_ || failed_) restarts_.end();
    if (host.removed) return restarts_.forget_address(end.rank);
    const std::string text = restarts_.after(end, host.slots().host, Clock::now());
    if (!text.empty()) log_warning(text);
  }

  void handle(RemoteHost& host, const Json& message) {
    const std::string kind = *text_field(message, "kind");
    const int rank = static_cast<int>(number_field(message, "rank").value_or(-1));
    const std::string text = text_field(message, "text").value_or("");
    const auto wait = allowed_wait(host.owns(rank) ? rank : -1, text, options_.grace);
    if (wait && kind == "line") {
      host.waits_until = connection_end(*wait + options_.grace.after_wait);
    }
    if (kind == "checkpoint") checkpoint_ = number_field(message, "step");
    if (kind == "line" && is_leaving(text)) leaving_.push_back(host.slots().host);
    if (kind == "line") show_.line(rank, text);
    if (kind == "out") show_.out_line(rank, text);
    if (kind == "status") show_.status(rank, text);
    if (kind == "ended" && host.owns(rank)) {
      host.running.erase(rank);
      end_worker(host, {.rank = rank,
                        .code = static_cast<int>(number_field(message, "code").value_or(1)),
                        .error = text,
                        .joined = message.value("joined", false),
                        .writer = message.value("writer", false),
                        .joiner = message.value("joiner", false),
                        .number = message.value("number", rank)});
    }
    const auto worker = host.running.find(rank);
    if (kind == "started" && worker != host.running.end()) {
      worker->second.mark = text_field(message, "mark").value_or("");
    }
    if (kind == "listens" && worker != host.running.end()) {
      worker->second.joins = false;
      worker->second.number = message.value("number", rank);
      restarts_.learn_address(
          {rank, worker->second.number, text_field(message, "at").value_or("")});
    }
    const auto question = message.find("question");
    if (kind == "question" && question != message.end()) {
      const auto answer = answer_of(witness_, *question);
      if (answer) host.send({{"kind", "answer"}, {"answer", *answer}});
    }
    const auto proof = message.find("proof");
    if (kind == "proof" && proof != message.end()) {
      for (RemoteHost& other : hosts_) {
        if (&other != &host && !other.done) other.send({{"kind", "proof"}, {"proof", *proof}});
      }
    }
  }

  // As LaunchedWorkers does for one host.
  void end_worker(const RemoteHost& host, const WorkerEnd& end) {
    const LaunchResult result{end.code, end.rank, host.slots().host, end.error};
    if (end.code == 0) {
      if (end.writer) succeed();
    } else if (end.joined) {
      lose_one(result, end.writer);
    } else if (!end.joiner) {
      fail(result);
    }
    note_end(host, end);
  }

  // The run of an elastic job is finished: workers that were left out of it end soon.
  void succeed() {
    if (std::exchange(succeeded_, true)) return;
    connections_.send_to_all({{"kind", "succeeded"}});
    for (RemoteHost& host : hosts_) end_within(host, options_.grace.after_stop);
  }

  // The others of an elastic job continue. If none of them finishes the run, the stop by the user
  // counts, or the failure of the last writer, or the first one.
  void lose_one(const LaunchResult& failure, bool writer) {
    constexpr int kInterrupted = static_cast<int>(ExitCode::kInterrupted);
    const bool stopped = failure_ && failure_->code == kInterrupted;
    if (!failure_ || failure.code == kInterrupted || (writer && !stopped)) failure_ = failure;
  }

  void fail(const LaunchResult& failure) {
    end_all();
    if (!failure_ || (!enforced_ && explains(failure.code, failure_->code))) failure_ = failure;
  }

  void end_all() {
    if (std::exchange(failed_, true)) return;
    connections_.send_to_all({{"kind", "failed"}});
    const Grace& grace = options_.grace;
    for (RemoteHost& host : hosts_) {
      end_within(host, host.owns(0) ? grace.after_failure : grace.others_after_failure);
    }
  }

  // The agent ends its workers by then. If it does not, the connection is cut a little later.
  Clock::time_point connection_end(milliseconds limit) const {
    constexpr milliseconds kForTheAgent{2'000};
    return Clock::now() + limit + options_.grace.after_term + kForTheAgent;
  }

  void end_within(RemoteHost& host, milliseconds limit) {
    const auto latest = connection_end(limit);
    host.end_at = host.end_at ? std::min(*host.end_at, latest) : latest;
  }

  void enforce() {
    for (RemoteHost& host : hosts_) {
      const auto end_at = host.waits_until ? host.waits_until : host.end_at;
      if (host.done || !end_at || Clock::now() < *end_at) continue;
      enforced_ = true;
      host.process().signal(SIGKILL);
    }
  }

  static std::string folder_here() { return std::filesystem::current_path().string(); }

  const HostLaunch& options_;
  HostConnections connections_;
  std::list<RemoteHost>& hosts_ = connections_.all();
  WorkerRestarts restarts_;
  HostReturns returns_{connections_};
  WatchedHosts watched_;
  std::string rendezvous_;
  std::string token_;
  std::string witness_id_;
  std::optional<uint64_t> checkpoint_;
  std::optional<uint64_t> restored_;
  std::vector<std::string> leaving_;
  std::vector<std::string> unseen_;
  int size_ = 0;
  WorkerOutput show_ = show_workers();
  Witness witness_;
  std::optional<LaunchResult> failure_;
  bool failed_ = false;     // all workers are to end
  bool succeeded_ = false;  // the writer of an elastic job has finished the run
  bool enforced_ = false;   // a connection was cut by enforce()
};

// Messages to agents are JSON, which has only UTF-8: other bytes would reach the hosts changed.
void check_can_be_sent(const HostLaunch& launch) {
  for (const std::string& argument : launch.arguments) {
    if (is_utf8(argument)) continue;
    throw ConfigError(
        format("the argument {} is not UTF-8 and cannot be sent to other hosts; give the file or "
               "directory a name in UTF-8",
               printable_line(argument)));
  }
  const std::string folder = std::filesystem::current_path().string();
  if (is_utf8(folder)) return;
  throw ConfigError(
      format("the name of the working directory {} is not UTF-8 and cannot be sent to other hosts; "
             "start from a different directory",
             printable_line(folder)));
}

}  // namespace

LaunchResult launch_hosts(const HostLaunch& launch) {
  check_launch_depth();
  check_can_be_sent(launch);
  return Launch(launch).run();
}

}  // namespace reigen
