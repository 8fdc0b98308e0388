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
      group_(group != nullptr ? *group : job.membership()->group()),
      state_(state),
      setting_(parse_compress(state.counters.compress)) {
  CompressorPlan plan = {.setting = setting_, .bucket = state.counters.bucket, .seed = seed};
  if (setting_.method == CompressMethod::kLocal) {
    outer_ = std::make_unique<OuterStep>(group_, layout.elements(), setting_.every, plan.bucket);
  } else {
    compressor_ = make_compressor(group_, device, layout, plan);
  }
  if (has_warmup(setting_)) {
    plan.setting = kWarmupSetting;
    if (compressor_) plan.residual = compressor_->residual();
    first_ = make_compressor(group_, device, layout, plan);
  }
  restore();
  state.counters.workers = static_cast<uint64_t>(job.size());
}

void Exchange::begin(uint64_t step, std::span<float> gradient) {
  const bool warmup = in_warmup(step);
  if (!warmup) first_.reset();
  local_ = outer_ && !warmup;
  if (local_ && !outer_->begun()) outer_->begin(state_.parameters);
  now_ = local_ ? nullptr : warmup ? first_.get() : compressor_.get();
  sent_before_ = sent();
  ready_seconds_ = compute_ = 0;
  times_ = {};
  if (now_ != nullptr) now_->begin(gradient);
}

void Exchange::ready(size_t elements) {
  if (now_ == nullptr) return;
  Stopwatch watch;
  now_->ready(elements);
  ready_seconds_ += watch.seconds();
}

void Exchange::finish() {
  if (now_ == nullptr) return;
  job_.check(now_->finish());
  compute_ = ready_seconds_ + now_->compute_seconds();
  times_ = now_->times();
}

void Exchange::after_update() {
  job_.check(outer_->after_step(state_.parameters));
  state_.counters.local_steps = outer_->steps();
  times_ = outer_->times();
}

Exchange::Sent Exchange::sent() const {
  Sent sent;
  for (const CommCounter& counter : group_.counters()) {
    sent.bytes += counter.bytes_sent;
    sent.away += counter.inter_node_bytes;
  }
  return sent;
}

CommunicationTimes Exchange::communication() const {
  const Sent now = sent();
  return {.busy = times_.busy,
          .hidden = times_.hidden,
          .hidden_at_best = times_.hidden_at_best,
          .sent = now.bytes - sent_before_.bytes,
          .inter_node_bytes = now.away - sent_before_.away};
}

// Local steps have no place for what the warm-up kept back.
std::string Exchange::state_owner() const {
  return outer_ && in_warmup(state_.counters.step) ? text_of(kWarmupSetting)
                                                   : state_.counters.compress;
}

std::vector<StateTensor> Exchange::kept() {
  if (!outer_) return compressor_->state();
  if (in_warmup(state_.counters.step)) return first_->state();
  std::vector<StateTensor> all = outer_->state();
  if (!outer_->begun()) return {};
  all.push_back({"parameters", state_.parameters, true});
  all.push_back({"first_moment", state_.first_moment, true});
  all.push_back({"second_moment", state_.second_moment, true});
  return all;
}

void Exchange::collect() {
  state_.kept.clear();
  state_.counters.kept_by = state_owner();
  for (const StateTensor& tensor : kept()) {
    if (!tensor.per_rank) {
      if (job_.first()) state_.kept.push_back({tensor.name, {}});
      if (job_.first()) {
        state_.kept.back().values.assign(tensor.values.begin(), tensor.values.end());
      }
      continue;
    }
    int rank = 0;
    for (std::vector<float>& values : job_.gather(tensor.values)) {
      state_.kept.push_back({name_of(tensor, rank++), std::move(values)});
    }
  }
}

// The first worker has read what all need. Whether it fits is the same question for all.
void Exchange::restore() {
  const Counters& counters = state_.counters;
  double had[] = {state_.kept.empty() ? 0.0 : 1.0};
  job_.sum(had);
  if (had[0] == 0) return;
  const bool same_workers = counters.workers == static_cast<uint64_t>(job_.size());
  const bool same_method = counters.kept_by == state_owner();
  if (same_workers && same_method) {
    if (outer_ && !in_warmup(counters.step)) {
      // The run's weights are where all met last; each worker's own follow.
      outer_->begin(state_.parameters);
      outer_->resume(counters.local_steps);
    }
    for (const StateTensor& tensor : kept()) {
      auto values_of = [&](int rank) -> std::span<const float> {
        const std::string name = name_of(tensor, rank);
        for (const SavedTensor& saved : state_.kept) {
          if (saved.name == name && saved.values.size() == tensor.values.size()) {
            return saved.values;
          }
        }
        throw CheckpointError(
            format("the checkpoint lacks {} of what {} keeps", name, counters.compress));
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
        "{} workers with {} before, {} with {} now{}: what each had kept back of its gradients is "
        "dropped; the run goes on from the weights all share",
        counters.workers, counters.kept_by, job_.size(), state_owner(),
        state_owner() == counters.compress ? "" : " (the warm-up)"));
  }
  state_.kept.clear();
}

void Exchange::swap_shared() {
  if (!outer_ || !outer_->begun()) return;
  std::ranges::swap_ranges(state_.parameters, outer_->shared());
}

void drop_kept(TrainState& state) {
  Counters& counters = state.counters;
  if (!state.kept.empty()) {
    log_warning(format(
        "{} workers with {} before, 1 now: what each had kept back of its gradients is dropped; "
        "the run goes on from the weights all share",
        counters.workers, counters.kept_by));
  }
  state.kept.clear();
  counters.workers = 1;
}

}  // namespace reigen
