#include "train/step/exchange.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/terminal.h"

namespace reigen {
namespace {

std::string name_of(const StateTensor& tensor, int rank) {
  return tensor.per_rank ? format("rank-{}.{}", rank, tensor.name) : tensor.name;
}

}  // namespace

Exchange::Exchange(Job& job, const Device& device, const ParameterLayout& layout, uint64_t seed,
                   TrainState& state, Group* group)
    : job_(job),
      group_(group != nullptr ? group : &job.membership()->group()),
      state_(state),
      setting_(parse_compress(state.choices.compress)) {
  CompressorPlan plan = {.setting = setting_, .bucket = state.choices.bucket, .seed = seed};
  plan.repeatable = job.elastic();
  if (setting_.method == CompressMethod::kLocal) {
    outer_ = std::make_unique<OuterStep>(*group_, layout.elements(), setting_.every, plan.bucket);
  } else {
    compressor_ = make_compressor(*group_, device, layout, plan);
  }
  if (has_warmup(setting_)) {
    plan.setting = kWarmupSetting;
    if (compressor_) plan.residual = compressor_->residual();
    warmup_ = make_compressor(*group_, device, layout, plan);
  }
  if (!job.elastic() || job.membership()->has_state()) resume();
  state.choices.workers = static_cast<uint64_t>(job.size());
}

void Exchange::begin(uint64_t step, std::span<float> gradient) {
  const bool warmup = in_warmup(step);
  if (!warmup) warmup_.reset();
  local_ = outer_ && !warmup;
  if (local_ && !outer_->begun()) outer_->begin(state_.parameters);
  now_ = local_ ? nullptr : warmup ? warmup_.get() : compressor_.get();
  sent_before_ = sent();
  ready_seconds_ = compute_ = 0;
  times_ = {};
  if (now_ != nullptr) now_->begin(gradient);
}

void Exchange::sum_losses(const LossSums& mine) {
  losses_ = {mine.smoothed, mine.nll};
  losses_sum_ = job_.membership()->group().sum(losses_);
}

void Exchange::ready(size_t elements) {
  if (now_ == nullptr) return;
  Stopwatch watch;
  now_->ready(elements);
  ready_seconds_ += watch.seconds();
}

void Exchange::finish() {
  if (now_ == nullptr) return;
  const CommStatus gradient = now_->finish();
  const CommStatus losses = losses_sum_.wait();
  job_.check(gradient);
  job_.check(losses);
  compute_ = ready_seconds_ + now_->compute_seconds();
  times_ = now_->times();
}

void Exchange::commit() {
  if (now_ != nullptr) now_->commit();
}

void Exchange::restore() {
  if (now_ != nullptr) now_->restore();
}

void Exchange::rejoin(Group* group) {
  group_ = group != nullptr ? group : &job_.membership()->group();
  if (compressor_) compressor_->use(*group_);
  if (warmup_) warmup_->use(*group_);
  state_.choices.workers = static_cast<uint64_t>(job_.size());
}

std::vector<std::span<float>> Exchange::shared_state() {
  std::vector<std::span<float>> shared;
  for (const StateTensor& tensor : states()) {
    if (!tensor.per_rank) shared.push_back(tensor.values);
  }
  return shared;
}

void Exchange::after_update() {
  job_.check(outer_->after_step(state_.parameters));
  state_.counters.local_steps = outer_->steps();
  times_ = outer_->times();
}

uint64_t Exchange::steps_with_shared_weights() const {
  if (!local_) return 1;
  return outer_->steps() == 0 ? static_cast<uint64_t>(setting_.every) : 0;
}

Exchange::Sent Exchange::sent() const {
  Sent sent;
  for (const CommCounter& counter : group_->counters()) {
    sent.bytes += counter.bytes_sent;
    sent.inter_node_bytes += counter.inter_node_bytes;
  }
  return sent;
}

CommunicationTimes Exchange::communication() const {
  const Sent now = sent();
  return {.busy = times_.busy,
          .hidden = times_.hidden,
          .hidden_at_best = times_.hidden_at_best,
          .sent = now.bytes - sent_before_.bytes,
          .inter_node_bytes = now.inter_node_bytes - sent_before_.inter_node_bytes};
}

// The method whose state is saved. Local steps cannot use the residual of their warm-up.
std::string Exchange::state_owner() const {
  return outer_ && in_warmup(state_.counters.step) ? text_of(kWarmupSetting)
                                                   : state_.choices.compress;
}

std::vector<StateTensor> Exchange::states() {
  if (!outer_) return compressor_->state();
  if (in_warmup(state_.counters.step)) return warmup_->state();
  std::vector<StateTensor> all = outer_->state();
  if (!outer_->begun()) return {};
  all.push_back({"parameters", state_.parameters, true});
  all.push_back({"first_moment", state_.first_moment, true});
  all.push_back({"second_moment", state_.second_moment, true});
  return all;
}

void Exchange::collect() {
  state_.worker_states.clear();
  state_.choices.worker_states_of = state_owner();
  for (const StateTensor& tensor : states()) {
    if (!tensor.per_rank) {  // the same on all ranks
      if (job_.first()) {
        state_.worker_states.push_back({tensor.name, {tensor.values.begin(), tensor.values.end()}});
      }
      continue;
    }
    int rank = 0;
    for (std::vector<float>& values : job_.gather(tensor.values)) {
      state_.worker_states.push_back({name_of(tensor, rank++), std::move(values)});
    }
  }
}

// Rank 0 has read the states of all ranks; whether they fit is decided alike on every rank.
void Exchange::resume() {
  const Counters& counters = state_.counters;
  const Choices& choices = state_.choices;
  if (!job_.any(!state_.worker_states.empty())) return;
  const bool same_workers = choices.workers == static_cast<uint64_t>(job_.size());
  const bool same_method = choices.worker_states_of == state_owner();
  if (same_workers && same_method) {
    if (outer_ && !in_warmup(counters.step)) {
      // The run's weights are those of the last outer step; each worker's own follow.
      outer_->begin(state_.parameters);
      outer_->resume(counters.local_steps);
    }
    for (const StateTensor& tensor : states()) {
      auto values_of = [&](int rank) -> std::span<const float> {
        const std::string name = name_of(tensor, rank);
        for (const SavedTensor& saved : state_.worker_states) {
          if (saved.name == name && saved.values.size() == tensor.values.size()) {
            return saved.values;
          }
        }
        throw CheckpointError(format(
            "the checkpoint has no tensor {} with {} values, which compression {} needs; resume "
            "from an older checkpoint or choose a different --compress",
            name, tensor.values.size(), choices.compress));
      };
      if (tensor.per_rank) {
        job_.scatter(values_of, tensor.values);
      } else {
        if (job_.first()) std::ranges::copy(values_of(0), tensor.values.begin());
        job_.broadcast(tensor.values);
      }
    }
  } else if (job_.first()) {
    log_warning(format(
        "the run had {} workers with compression {} before and has {} with {}{} now: the "
        "compression state of each worker is dropped, and training resumes from the shared weights",
        choices.workers, choices.worker_states_of, job_.size(), state_owner(),
        state_owner() == choices.compress ? "" : " (warm-up)"));
  }
  state_.worker_states.clear();
}

void Exchange::swap_shared() {
  if (!outer_ || !outer_->begun()) return;
  std::ranges::swap_ranges(state_.parameters, outer_->shared());
}

void drop_worker_states(TrainState& state) {
  Choices& choices = state.choices;
  if (!state.worker_states.empty()) {
    log_warning(format(
        "the run had {} workers with compression {} before and has 1 now: the compression state of "
        "each worker is dropped, and training resumes from the shared weights",
        choices.workers, choices.worker_states_of));
  }
  state.worker_states.clear();
  choices.workers = 1;
}

}  // namespace reigen
