// A worker for tests with real processes: joins its job, sums numbers instead of training, and
// prints the result. Its settings are in the environment, so that every launcher can start it.
//
//   dist_worker launch N ACTION...      N workers on this machine
//   dist_worker hosts SPEC ACTION...    over ssh
//   dist_worker sum | loop | elastic | say TEXT... | fail RANK CODE TEXT | deaf | hang-in-wait
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "dist/launch/hosts/host_launch.h"
#include "dist/launch/launch.h"
#include "dist/members/membership.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;

std::string setting(const char* name, const std::string& otherwise) {
  return process_environment(name).value_or(otherwise);
}

MembershipOptions options_of(const Placement& place) {
  MembershipOptions options =
      prepare_rendezvous(place, {.token_file = setting("WORK_TOKEN_FILE", ""),
                                 .insecure = setting("WORK_INSECURE", "") == "yes"});
  const std::string encrypt = setting("WORK_ENCRYPT", "auto");
  options.encrypt = encrypt == "on"    ? Encrypt::kOn
                    : encrypt == "off" ? Encrypt::kOff
                                       : Encrypt::kAuto;
  options.interface = setting("WORK_INTERFACE", "");
  options.silence = milliseconds(std::stoi(setting("WORK_SILENCE", "10000")));
  options.start_within = milliseconds(std::stoi(setting("WORK_START", "20000")));
  options.facts = {{"config", setting("WORK_CONFIG", "same")}};
  options.elastic = setting("WORK_ELASTIC", "") == "yes";
  options.pause_limit = milliseconds(std::stoi(setting("WORK_PAUSE", "60000")));
  return options;
}

void add_once(Membership& membership) {
  std::vector<float> data(1000, static_cast<float>(membership.group().rank() + 1));
  const CommStatus status = membership.explain(membership.group().all_reduce(data).wait());
  if (!status.ok()) throw CommError(describe(status));
  print(format("rank {} of {} on {} by {}: sum {}\n", membership.group().rank(),
               membership.group().size(),
               membership.control().members()[static_cast<size_t>(membership.group().rank())].host,
               membership.interface().name, data[999]));
  const std::string encryption = membership.encryption();
  print(format("encryption {}\n", encryption.empty() ? "''" : encryption));
}

// As Job::check() and Job::give_up() do.
[[noreturn]] void end_with(Membership& membership, const CommStatus& status) {
  const CommStatus why = membership.explain(status);
  if (const auto error = membership.control().first_error()) {
    throw CommError(
        format("{} ended with an error: {}", rank_and_host(error->rank, error->host), error->text));
  }
  if (why.state == CommState::kUnreachable) membership.control().report_error(describe(why));
  throw CommError(describe(why));
}

// Until a worker is lost, or any worker got a signal.
void add_until_stopped(Membership& membership) {
  std::vector<float> data(500'000);
  log_note("ready");
  while (true) {
    std::fill(data.begin(), data.end(), 1.0f);
    double stop = interrupt_requested() ? 1 : 0;
    CommStatus status = membership.group().all_reduce(data).wait();
    if (status.ok()) status = membership.group().sum({&stop, 1}).wait();
    if (!status.ok()) end_with(membership, status);
    if (stop > 0) break;
  }
}

// The highest count of steps of any member: all have what was summed in it, as in training.
CommStatus agree_on_steps(Membership& membership, uint64_t& steps) {
  std::vector<double> all(membership.members().size());
  all[static_cast<size_t>(membership.group().rank())] = static_cast<double>(steps);
  const CommStatus status = membership.group().sum(all).wait();
  if (status.ok()) steps = static_cast<uint64_t>(*std::max_element(all.begin(), all.end()));
  return status;
}

std::string numbers_of(const Membership& membership) {
  std::string text;
  for (const Member& member : membership.members()) text += format(" {}", member.id.number);
  return text;
}

// Steps through losses until any worker got a signal. After each new membership the first step that
// succeeds is printed with its members.
void step_elastically(Membership& membership) {
  std::vector<float> data(100'000);
  uint64_t steps = 0;
  bool announced = false;
  CommStatus status;
  log_note("ready");
  while (true) {
    if (!status.ok()) {
      membership.form_next(status);
      announced = false;
      status = agree_on_steps(membership, steps);
      if (status.ok() && !membership.has_state()) membership.received_state();
      if (status.ok() && membership.has_added()) {
        status = membership.group().barrier().wait();
        if (status.ok()) status = CommStatus::closed("added workers get a vote");
      }
      continue;
    }
    std::fill(data.begin(), data.end(), 1.0f);
    const bool first = membership.group().rank() == 0;
    double votes[] = {interrupt_requested() ? 1.0 : 0.0,
                      first && membership.joiners_wait() ? 1.0 : 0.0};
    status = membership.group().all_reduce(data).wait();
    if (status.ok()) status = membership.group().sum(votes).wait();
    if (!status.ok()) continue;
    ++steps;
    if (data[0] != static_cast<float>(membership.members().size())) {
      throw Error(ExitCode::kInternal, format("the sum is {}", data[0]));
    }
    if (!std::exchange(announced, true)) {
      log_note(format("epoch {} steps with:{}", membership.epoch(), numbers_of(membership)));
    }
    if (votes[0] > 0) return;
    if (votes[1] > 0) status = CommStatus::closed("workers are added");
    std::this_thread::sleep_for(milliseconds(1));
  }
}

void work(const std::vector<std::string>& args) {
  const auto place = detect_launch();
  if (!place) throw ConfigError("no launcher started this");
  if (args[0] == "say") {
    for (size_t i = 1; i < args.size(); ++i) log_note(format("{} {}", place->rank, args[i]));
    print(format("out {}\n", place->rank));
    return;
  }
  if (args[0] == "fail" && place->rank == std::stoi(args[1])) {
    throw Error(static_cast<ExitCode>(std::stoi(args[2])), args[3]);
  }
  if (args[0] == "hang-in-wait" && place->rank > 0) return;
  if (args[0] == "hang-in-wait") log_waiting(std::chrono::seconds(1), "for room");
  if (args[0] == "deaf" || args[0] == "hang-in-wait") {
    std::signal(SIGTERM, SIG_IGN);
    std::signal(SIGINT, SIG_IGN);
    log_note("ready");
    while (true) std::this_thread::sleep_for(milliseconds(100));
  }
  Membership membership(options_of(*place));
  if (args[0] == "sum") {
    add_once(membership);
  } else if (args[0] == "elastic") {
    step_elastically(membership);
  } else {
    add_until_stopped(membership);
  }
  if (const CommStatus left = membership.leave(); !left.ok()) throw CommError(describe(left));
  if (interrupt_requested()) throw Interrupted("stopped");
}

LaunchResult launch(const std::vector<std::string>& args) {
  const std::vector<std::string> rest(args.begin() + 2, args.end());
  Grace grace;
  grace.after_failure = milliseconds(std::stoi(setting("WORK_GRACE", "10000")));
  grace.after_stop = grace.after_failure;
  grace.after_wait = grace.after_failure;
  grace.after_term = milliseconds(500);
  const bool elastic = setting("WORK_ELASTIC", "") == "yes";
  if (args[0] == "launch") {
    return launch_local({std::stoi(args[1]), rest, grace, {}, elastic});
  }
  HostLaunch hosts;
  hosts.hosts = parse_hosts(args[1]);
  hosts.arguments = rest;
  hosts.version = setting("WORK_VERSION", "1");
  hosts.binary = setting("WORK_BINARY", "");
  hosts.copy_binary = !setting("WORK_COPY", "").empty();
  hosts.grace = grace;
  hosts.elastic = elastic;
  hosts.connect_within = milliseconds(std::stoi(setting("WORK_CONNECT", "60000")));
  return launch_hosts(hosts);
}

void run(const std::vector<std::string>& args) {
  if (args.empty()) throw ConfigError("nothing to do");
  if (args[0] == kAgentCommand) return run_host_agent(setting("WORK_AGENT_VERSION", "1"));
  if (args[0] != "launch" && args[0] != "hosts") return work(args);
  const LaunchResult result = launch(args);
  if (result.ok()) return;
  throw Error(static_cast<ExitCode>(result.code),
              format("{}: {}", rank_and_host(result.rank, result.host), result.error));
}

}  // namespace
}  // namespace reigen

int main(int argc, char** argv) {
  reigen::catch_interrupts();
  try {
    reigen::run({argv + 1, argv + argc});
    return 0;
  } catch (const reigen::Error& e) {
    reigen::log_error(e.what());
    return static_cast<int>(e.code());
  } catch (const std::exception& e) {
    reigen::log_error(e.what());
    return 1;
  }
}
