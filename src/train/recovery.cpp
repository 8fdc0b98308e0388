#include "train/recovery.h"

#include <algorithm>
#include <utility>

#include "base/terminal.h"
#include "dist/compress/compressor.h"
#include "train/settlement.h"
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

void note_change(const MembershipChange& change, MembershipChangeRecord& record) {
  for (const MembershipChange::Lost& lost : change.lost) {
    record.lost.push_back({.worker = static_cast<uint64_t>(lost.member.id.number),
                           .host = lost.member.host,
                           .why = lost.reason.why,
                           .proven = lost.reason.proven});
  }
  record.paused += change.paused;
}

Position own_position(const AttemptParts& parts, const LoopPosition& loop) {
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

void settle_step(AttemptParts& parts, const LoopServices& services, Recovered& out) {
  Stepper& stepper = *parts.stepper;
  std::optional<StepResult> rolled_forward;
  const Settlement settlement = agree_on_settlement(parts.job, own_position(parts, out.loop));
  if (stepper.position().committed < settlement.step) {
    stepper.roll_forward();
    rolled_forward = stepper.finish();
    parts.job.adopt({});  // votes of a step that no worker here had committed are cast again
  } else {
    stepper.abandon();
  }
  if (settlement.furthest) adopt(*settlement.furthest, parts, out);
  if (rolled_forward) services.log_step(*rolled_forward);
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
  Recovered out;
  out.loop = loop;
  stop_traffic(parts);
  CommStatus noticed = why;
  double until_formed = 0;
  std::optional<Stopwatch> since_formed;
  while (true) {
    const MembershipChange change = membership.form_next(noticed);
    note_change(change, out.record);
    if (!since_formed) {
      until_formed = change.seconds;
      since_formed.emplace();
    }
    try {
      settle_step(parts, services, out);
      if (change_writer(parts, services.recent, out.loop.checkpoint.step)) {
        out.loop.checkpoint = {.changed_since = true};
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
  out.record.seconds = until_formed + since_formed->seconds();
  out.record.time = unix_now();
  out.record.writer = static_cast<uint64_t>(membership.members().front().id.number);
  out.record.lost_residuals =
      !out.record.lost.empty() && computed_on_host(parse_compress(parts.state.choices.compress));
  return out;
}

}  // namespace reigen
