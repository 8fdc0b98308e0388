#include "train/joiner.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/json/json_view.h"
#include "base/machine.h"
#include "base/terminal.h"
#include "config/yaml.h"
#include "data/manifest.h"
#include "dist/launch/secret.h"
#include "dist/members/join_question.h"
#include "train/trainer.h"
#include "train/workers/join.h"
#include "train/workers/preemption.h"

namespace reigen {
namespace {

struct JobFacts {
  std::string version;
  std::string options;
  std::string data;  // fingerprint
  bool shares_of = false;
  Choices choices;
};

JobFacts facts_in(const std::string& welcome) {
  try {
    const Json json = Json::parse(welcome);
    const JsonView view(json);
    JobFacts facts;
    facts.version = json.at("version").get<std::string>();
    facts.options = json.at("options").get<std::string>();
    facts.data = json.at("data").get<std::string>();
    facts.shares_of = json.at("shares_of").get<bool>();
    facts.choices.micro_tokens = view.at("micro_tokens");
    facts.choices.precision = json.at("precision").get<std::string>();
    return facts;
  } catch (const std::exception&) {  // of a different version, or before its first step
    throw CommError(
        "the job does not say what a worker has to know; it may not have begun to train, or has a "
        "different version");
  }
}

std::string token_of_job() {
  const char* token = std::getenv("REIGEN_TOKEN");
  if (token == nullptr) {
    throw ConfigError(
        "REIGEN_TOKEN is not set: it must be the same text as for the other workers of the job");
  }
  check_secret(token, "REIGEN_TOKEN");
  return token;
}

void check_job(const JobFacts& facts, const std::string& version) {
  if (facts.version != version) {
    throw ConfigError(
        format("the job runs {}, this program is {}; a worker of the same version can join it",
               facts.version, version));
  }
  if (facts.shares_of) {
    throw ConfigError(
        "the job repeats the shares of a different run (--shares-of); no worker can "
        "join it");
  }
}

// How this process finds the job.
struct Invitation {
  std::vector<Endpoint> at;
  std::string token;
  std::string host = {};  // this machine's name for the others; empty for the system's
  Socket parent = {};     // the pipe to a launcher
  std::string witness = {};
};

MembershipOptions membership_of(const WorkerOptions& workers, Invitation invitation) {
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
  };
  MembershipOptions options;
  options.token = std::move(invitation.token);
  options.host = std::move(invitation.host);
  options.parent = std::move(invitation.parent);
  options.witness = std::move(invitation.witness);
  options.encrypt = workers.encrypt;
  options.interface = workers.interface;
  options.start_within = milliseconds(workers.start_within);
  options.silence = milliseconds(workers.silence);
  options.timeout = milliseconds(workers.stall);
  options.pause_limit = milliseconds(workers.pause);
  return options;
}

void join_job_at(Invitation invitation, const TrainOptions& given, const std::string& version) {
  const WorkerOptions& own = given.workers;
  JoinQuestion question{.at = invitation.at,
                        .token = invitation.token,
                        .encryption = Encryption(own.encrypt, invitation.token)};
  question.within = std::chrono::milliseconds(static_cast<int64_t>(1000 * own.start_within));
  const JoinAnswer answer = ask_running_job(question);
  const JobFacts facts = facts_in(answer.welcome);
  check_job(facts, version);

  TrainOptions train = options_of_joiner(facts.options, given);
  train.data = std::filesystem::absolute(train.data).lexically_normal().string();
  if (train.threads == 0) train.threads = usable_cores();
  if (train.memory == 0 && !train.device.device.starts_with("cuda")) {
    train.memory = available_memory() / 2;
  }
  log_note(format("becomes worker {} of the job of {}; opens {}", answer.job.number,
                  answer.job.at.members.front().host, train.data));
  ignore_hangup();
  read_manifest(train.data);
  Job job;
  PreemptionWatch preemption(train.preemption, true);
  const std::unique_ptr<AttemptParts> parts = prepare_joiner(train, facts.choices, job, version);
  if (parts->data.fingerprint != facts.data) {
    throw DataError(
        format("the dataset {} differs from that of the job (by its manifest); copy the "
               "same dataset to this host",
               train.data));
  }
  parts->preemption = &preemption;
  log_note("asks to be added; the others go on until then");
  job = Job(std::make_unique<Membership>(membership_of(train.workers, std::move(invitation)),
                                         answer.job));
  set_quiet(true);
  try {
    run_attempt(*parts, true);
  } catch (const CommError&) {  // follows from a loss that the others notice themselves
    throw;
  } catch (const std::exception& e) {
    job.membership()->control().report_error(e.what());
    throw;
  }
}

}  // namespace

std::string welcome_text(const AttemptParts& parts) {
  return one_line(Json{{"version", parts.facts.version},
                       {"options", to_yaml(recorded_options(parts.options))},
                       {"data", parts.data.fingerprint},
                       {"shares_of", !parts.options.workers.shares_of.empty()},
                       {"micro_tokens", parts.state.choices.micro_tokens},
                       {"precision", parts.state.choices.precision}});
}

void join_running_job(const JoinJobOptions& options, const std::string& version) {
  join_job_at({parse_endpoints(options.address), token_of_job()}, options.own, version);
}

void rejoin_running_job(const TrainOptions& own, const Placement& placement,
                        const std::string& version) {
  TrainOptions here = own;
  divide_machine(here, placement);
  join_job_at({placement.join, placement.token, host_of(placement), take_parent_pipe(placement),
               placement.witness},
              here, version);
}

}  // namespace reigen
