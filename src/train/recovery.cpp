#include "train/recovery.h"

#include <algorithm>
#include <utility>

#include "base/terminal.h"
#include "dist/compress/compressor.h"
#include "train/run/starting_point.h"
#include "train/settlement.h"
#include "train/state_transfer.h"
#include "train/writer_change.h"

namespace reigen {
namespace {

// No operation of the old group uses this worker's memory afterwards.
void stop_traffic(AttemptParts& parts) {
  if (parts.transport.direct) {
    parts.transport.direct->close();
    parts.transport.direct->drain();
  }
  if (!parts.traced) return;
  if (parts.job.first()) log_warning("--timeline ends, because the workers of the job change");
  parts.stepper->trace(nullptr);
  parts.traced.reset();
}

void note_change(const MembershipChange& change, const std::map<int, std::string>& leaving,
                 MembershipChangeRecord& record) {
  for (const MembershipChange::Lost& lost : change.lost) {
    const auto left = leaving.find(lost.member.id.number);
    if (left != leaving.end() || lost.reason.left) {
      record.left.push_back({.worker = static_cast<uint64_t>(lost.member.id.number),
                             .host = lost.member.host,
                             .why = left == leaving.end() ? "" : left->second});
      continue;
    }
    record.lost.push_back({.worker = static_cast<uint64_t>(lost.member.id.number),
                           .host = lost.member.host,
                           .why = lost.reason.why,
                           .proven = lost.reason.proven});
  }
  for (const Member& member : change.joined) {
    record.joined.push_back(
        {.worker = static_cast<uint64_t>(member.id.number), .host = member.host});
  }
  record.paused += change.paused;
}

Position own_position(const AttemptParts& parts, const LoopPosition& loop) {
  if (!parts.job.membership()->has_state()) return {.stateless = true};
  const StepPosition at = parts.stepper->position();
  Position own;
  own.committed = at.committed;
  own.began = at.began;
  own.reduced = at.reduced;
  own.forming = loop.forming;
  own.evaluated = parts.state.counters.evaluated_step;
  own.decay = parts.state.choices.decay.begin;
  own.checkpoint = loop.checkpoint.step.value_or(0);
  own.unsaved = loop.checkpoint.changed_since;
  own.votes = parts.job.agreed();
  own.state = one_line(manifest_state(parts.state));
  own.workers = parts.shares->workers();
  return own;
}

Settlement agree_on_settlement(Job& job, const Position& own) {
  const std::vector<std::string> all = job.gather(to_text(own));
  std::string decision;
  if (job.first()) {
    std::vector<Position> positions;
    positions.reserve(all.size());
    for (const std::string& text : all) positions.push_back(position_from(text));
    decision = to_text(settle(positions));
  }
  return settlement_from(job.broadcast(decision));
}

// Counters and choices of the member that was furthest. Times, and the number of the attempt, are
// this worker's own.
void adopt(const Position& furthest, AttemptParts& parts, Recovered& out) {
  const Counters own = parts.state.counters;
  const Decay decay = parts.state.choices.decay;
  read_manifest_state(Json::parse(furthest.state), parts.state);
  Counters& counters = parts.state.counters;
  counters.seconds = own.seconds;
  counters.step_seconds = own.step_seconds;
  counters.attempt = own.attempt;
  if (!decay.active() && parts.state.choices.decay.active()) {
    out.adopted_decay = parts.state.choices.decay;
  }
  out.loop.checkpoint = {.changed_since = furthest.unsaved};
  if (furthest.checkpoint > 0) out.loop.checkpoint.step = furthest.checkpoint;
  parts.shares->adopt(furthest.workers);
  parts.job.adopt(furthest.votes);
}

// The own step ends as that of all members.
void carry_out(const Settlement& settlement, AttemptParts& parts, const LoopServices& services,
               Recovered& out) {
  Stepper& stepper = *parts.stepper;
  std::optional<StepResult> rolled_forward;
  if (stepper.position().committed < settlement.step) {
    stepper.roll_forward();
    rolled_forward = stepper.finish();
    parts.job.adopt({});  // votes of a step that no worker here had committed are cast again
  } else {
    stepper.abandon();
  }
  if (settlement.furthest) adopt(*settlement.furthest, parts, out);
  if (rolled_forward) services.log_step(*rolled_forward);
}

// What rank 0 knows about the boundary, which the members agree on, for those that were added.
void tell_added_of(AttemptParts& parts, Recovered& out) {
  Position told = own_position(parts, out.loop);
  if (parts.job.first()) parts.state.counters.seconds = parts.run_seconds();
  told.state = one_line(manifest_state(parts.state));
  told = position_from(parts.job.broadcast(to_text(told)));
  if (parts.job.membership()->has_state()) return;
  read_manifest_state(Json::parse(told.state), parts.state);
  parts.earlier_seconds = parts.state.counters.seconds - parts.watch.seconds();
  out.loop.checkpoint = {.changed_since = told.unsaved};
  if (told.checkpoint > 0) out.loop.checkpoint.step = told.checkpoint;
  parts.shares->adopt(told.workers);
  parts.job.adopt(told.votes);
  out.received_state = true;
}

// Of a run of --eval.old-data; a new process has not seen the dataset.
void tell_added_of_old_set(AttemptParts& parts) {
  if (!names_dataset(parts.options.tune.old_data)) return;
  const std::string text = parts.job.broadcast(parts.job.first() ? old_set_text(parts) : "");
  if (!parts.job.membership()->has_state()) read_old_set(text, parts);
}

void tell_added_of_replay(AttemptParts& parts, const Settlement& settlement) {
  std::vector<uint64_t> numbers;
  for (const int rank : settlement.stateless) {
    const Member& member = parts.job.membership()->members()[static_cast<size_t>(rank)];
    numbers.push_back(static_cast<uint64_t>(member.id.number));
  }
  parts.replay->added(settlement.step, numbers);
}

void settle_step(AttemptParts& parts, const LoopServices& services, Recovered& out) {
  const Settlement settlement = agree_on_settlement(parts.job, own_position(parts, out.loop));
  if (parts.job.membership()->has_state()) carry_out(settlement, parts, services, out);
  if (!settlement.stateless.empty()) {
    tell_added_of(parts, out);
    tell_added_of_old_set(parts);
    tell_added_of_replay(parts, settlement);
    send_state(parts, settlement.stateless);
  }
  out.record.step = settlement.step;
  // A loss while the members settled does not change what happened to the step.
  if (out.record.settled.empty() || settlement.settled != Settled::kKept) {
    out.record.settled = text_of(settlement.settled);
  }
}

void rebuild(AttemptParts& parts) {
  parts.state.worker_states.clear();
  parts.input.reset();
  if (parts.on_gpu()) {
    const CompressSetting compress = parse_compress(parts.state.choices.compress);
    parts.transport = choose_transport(parts.job, parts.opened.device, parts.options, compress);
    drop_nccl_if_unused(parts.transport, compress);
  }
  parts.stepper->rejoin(parts.transport.direct.get());
  parts.shares->rejoin(parts.state.counters.step);
  parts.input = make_input(parts);
}

}  // namespace

Recovered recover(AttemptParts& parts, const CommStatus& why, const LoopPosition& loop,
                  const LoopServices& services) {
  Membership& membership = *parts.job.membership();
  const std::string writing_host = membership.members().front().host;
  Recovered out;
  out.loop = loop;
  stop_traffic(parts);
  CommStatus noticed = why;
  double until_formed = 0;
  std::optional<Stopwatch> since_formed;
  bool formed = services.formed;
  while (true) {
    const MembershipChange change =
        std::exchange(formed, false) ? MembershipChange{} : membership.form_next(noticed);
    note_change(change, services.leaving, out.record);
    if (!membership.has_state()) stop_writing(parts);
    if (!since_formed) {
      until_formed = change.seconds;
      since_formed.emplace();
    }
    try {
      settle_step(parts, services, out);
      if (change_writer(parts, services.recent, out.loop.checkpoint.step)) {
        out.loop.checkpoint = {.changed_since = true};
      }
      // The added workers have the state now, and a vote from the next membership on.
      if (membership.has_added()) {
        parts.job.barrier();
        noticed = CommStatus::closed("added workers get a vote");
        continue;
      }
      rebuild(parts);
      membership.forget_old_groups();
      break;
    } catch (const WorkerLost& lost) {
      noticed = lost.status;
    }
  }
  constexpr size_t kShortId = 8;
  out.loop.forming = membership.forming_id();
  out.record.epoch = static_cast<uint64_t>(membership.epoch());
  out.record.id = out.loop.forming.substr(0, kShortId);
  out.record.workers = static_cast<uint64_t>(parts.job.size());
  out.record.members = member_entries(parts.job);
  out.record.seconds = until_formed + since_formed->seconds();
  out.record.time = unix_now();
  out.record.writer = static_cast<uint64_t>(membership.members().front().id.number);
  out.record.earlier_run = std::exchange(parts.earlier_run, "");
  if (!out.record.earlier_run.empty()) out.record.earlier_host = writing_host;
  out.record.lost_residuals = !(out.record.lost.empty() && out.record.left.empty()) &&
                              computed_on_host(parse_compress(parts.state.choices.compress));
  return out;
}

}  // namespace reigen
