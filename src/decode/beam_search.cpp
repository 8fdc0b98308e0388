#include "decode/beam_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "base/error.h"
#include "base/format.h"
#include "decode/search.h"
#include "device/gpu.h"
#include "model/activation_memory.h"
#include "ops/gpu_search.h"

namespace reigen {
namespace {

// Hypotheses times source tokens searched at once, unless the options say otherwise.
constexpr int64_t kCpuTokens = 8192;
// On a CPU for caches and logits at their worst, of which most searches write less than half.
// `base` with 32,000 pieces then searches 1,900 tokens at once.
constexpr double kCpuBytes = 320 << 20;
// On a CPU for logits: many short sentences would need more, and gain nothing (128 rows of 32,000
// pieces).
constexpr int64_t kCpuLogitBytes = 16 << 20;
constexpr int64_t kGpuTokens = 393'216;
constexpr int64_t kMostGpuRows = 8192;  // more gain nothing; their logits take 64 KB each
constexpr int64_t kFreeTokens = 10;     // beyond max-ratio, so that short sources may grow
constexpr int64_t kShortSource = 4;     // tokens; the estimate of decoding_bytes() assumes as many

using Ids = std::vector<uint32_t>;

// All sources of a list, by falling length.
class ListFeed : public SearchFeed {
 public:
  ListFeed(const std::vector<Ids>& sources, const SourceExtras& extras,
           const std::function<void(size_t)>& progress)
      : sources_(sources),
        extras_(extras),
        order_(by_length(sources)),
        progress_(progress),
        results_(sources.size()) {
    rest_.sentences = static_cast<int64_t>(sources.size());
    for (const Ids& source : sources) rest_.tokens += static_cast<int64_t>(source.size());
  }

  std::optional<SearchSource> next(bool) override {
    if (ended()) return std::nullopt;
    const size_t number = order_[at_++];
    --rest_.sentences;
    rest_.tokens -= static_cast<int64_t>(sources_[number].size());
    return source_of(sources_, extras_, number, number);
  }
  bool ended() const override { return at_ == order_.size(); }
  std::optional<SearchRest> rest() const override { return rest_; }
  void found(size_t number, std::vector<Hypothesis> hypotheses) override {
    results_[number] = std::move(hypotheses);
    if (progress_) progress_(++done_);
  }
  std::vector<std::vector<Hypothesis>> take() { return std::move(results_); }

 private:
  const std::vector<Ids>& sources_;
  const SourceExtras& extras_;
  std::vector<size_t> order_;
  const std::function<void(size_t)>& progress_;
  SearchRest rest_;
  size_t at_ = 0;
  size_t done_ = 0;
  std::vector<std::vector<Hypothesis>> results_;
};

// Bound of the length limits of `sentences` sources that have `tokens` tokens in all.
int64_t longest_outputs(int64_t tokens, int64_t sentences, const DecodeOptions& options,
                        int64_t model_length) {
  const double wanted = static_cast<double>(tokens) * options.max_ratio +
                        static_cast<double>((kFreeTokens + options.min_length) * sentences);
  const auto longest = static_cast<double>(model_length * sentences);
  return static_cast<int64_t>(std::min(wanted, longest));
}

}  // namespace

int64_t decoding_tokens(const Device& device, const Transformer& model, DType type,
                        const DecodeOptions& options) {
  if (options.batch_tokens > 0) return options.batch_tokens;
  const Gpu* gpu = device.gpu();
  const double ratio = std::max(options.max_ratio, static_cast<double>(options.min_length) /
                                                       static_cast<double>(kShortSource));
  const double each = decoding_bytes(model.options(), model.vocabulary(), ratio,
                                     static_cast<double>(size_of(type)));
  if (gpu == nullptr) return std::min(kCpuTokens, static_cast<int64_t>(kCpuBytes / each) + 1);
  const double room = static_cast<double>(gpu->free_memory()) / 2;
  return std::min(kGpuTokens, static_cast<int64_t>(room / each) + 1);
}

std::vector<size_t> by_length(const std::vector<Ids>& sources) {
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sources[a].size() > sources[b].size(); });
  return order;
}

double length_penalty(size_t length, double alpha) {
  return std::pow((5 + static_cast<double>(length)) / 6, alpha);
}

int64_t longest_output(int64_t source_tokens, const DecodeOptions& options, int64_t model_length) {
  const double wanted = std::floor(static_cast<double>(source_tokens) * options.max_ratio);
  if (wanted >= static_cast<double>(model_length)) return model_length;
  const int64_t by_source = static_cast<int64_t>(wanted) + kFreeTokens;
  return std::min(model_length, std::max(by_source, options.min_length + 1));
}

int64_t search_cost(size_t source_tokens, const DecodeOptions& options) {
  return options.beam * std::max(kShortSource, static_cast<int64_t>(source_tokens));
}

SearchSource source_of(const std::vector<Ids>& sources, const SourceExtras& extras, size_t place,
                       size_t number) {
  SearchSource source{.ids = &sources[place], .number = number, .key = place};
  if (!extras.keys.empty()) source.key = extras.keys[place];
  if (!extras.prefixes.empty()) source.prefix = &extras.prefixes[place];
  return source;
}

namespace {

int64_t prefix_length(const SearchSource& source) {
  return source.prefix == nullptr ? 0 : static_cast<int64_t>(source.prefix->size());
}

[[noreturn]] void throw_long_prefix(int64_t tokens, int64_t model_length) {
  throw DataError(
      format("a forced prefix has {} tokens but the model's translations have at most {}, end "
             "included; shorten the prefix",
             tokens, model_length));
}

[[noreturn]] void throw_long_minimum(int64_t tokens, int64_t model_length) {
  throw ConfigError(
      format("--min-length is {} but the model's translations have at most {} tokens before their "
             "end; lower it",
             tokens, model_length - 1));
}

}  // namespace

std::optional<SearchRest> WaitingSources::rest() const {
  return feed_.ended() ? SearchRest{} : feed_.rest();
}

void WaitingSources::gather(const SearchRoom& room, bool wait) {
  int64_t cost = 0;
  for (const WaitingSource& one : list_) cost += one.cost;
  while (cost < room.tokens && static_cast<int64_t>(list_.size()) < room.sentences) {
    const std::optional<SearchSource> source = feed_.next(wait && list_.empty());
    if (!source) return;
    check_source_length(source->ids->size(), model_length_);
    if (options_.min_length >= model_length_) {
      throw_long_minimum(options_.min_length, model_length_);
    }
    const auto tokens = static_cast<int64_t>(source->ids->size());
    const int64_t forced = prefix_length(*source);
    if (forced >= model_length_) throw_long_prefix(forced, model_length_);
    const int64_t limit = longest_output(tokens, options_, model_length_);
    list_.push_back({*source, search_cost(source->ids->size(), options_),
                     std::min(model_length_, limit + forced)});
    cost += list_.back().cost;
  }
}

void reserve_caches(IncrementalDecoder& decoder, WaitingSources& waiting, const SearchRoom& room,
                    const DecodeOptions& options) {
  // A GPU rounds the tokens of sources that are encoded together up to 128.
  auto with_slack = [](int64_t rows) { return rows + rows / 32 + 1024; };
  const int64_t model_length = decoder.model().options().max_length;
  int64_t sources = 0;
  int64_t targets = 0;
  for (const WaitingSource& one : waiting.list()) {
    sources += static_cast<int64_t>(one.source.ids->size());
    targets += one.limit;
  }
  const std::optional<SearchRest> rest = waiting.rest();
  if (rest) {
    sources += rest->tokens;
    targets += longest_outputs(rest->tokens, rest->sentences, options, model_length);
  }
  if (!rest || rest->sentences > 0) {
    const int64_t tokens = room.tokens / options.beam;
    const int64_t any = longest_outputs(tokens, room.sentences, options, model_length);
    const int64_t most_sources = tokens + tokens / 2 + model_length;  // some wait; and gaps
    const int64_t most_targets = any + model_length;
    sources = rest ? std::min(sources, most_sources) : most_sources;
    targets = rest ? std::min(targets, most_targets) : most_targets;
  }
  decoder.reserve(std::max(decoder.source_rows().rows(), with_slack(sources)),
                  std::max(decoder.target_rows().rows(), options.beam * targets));
}

void throw_not_finite() {
  throw CheckpointError(
      "the model's probabilities are not finite: its parameters are NaN or too large; use an "
      "earlier checkpoint");
}

void throw_no_room(size_t source_tokens) {
  throw std::logic_error(
      format("the caches of a search have no room for a source of {} tokens", source_tokens));
}

void sort_by_score(std::vector<Hypothesis>& hypotheses) {
  std::stable_sort(hypotheses.begin(), hypotheses.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
}

void beam_search(const Decoders& decoders, SearchFeed& feed, SpecialIds special,
                 const DecodeOptions& options) {
  const IncrementalDecoder& first = *decoders.front();
  const int64_t tokens = decoding_tokens(first.device(), first.model(), first.type(), options);
  SearchRoom room{tokens, std::max<int64_t>(1, tokens / (options.beam * kShortSource))};
  if (first.device().gpu() == nullptr) {
    const auto row = static_cast<int64_t>(sizeof(float) * first.model().vocabulary());
    const int64_t most = std::max<int64_t>(1, kCpuLogitBytes / row / options.beam);
    room.sentences = std::min(room.sentences, most);
    return host_search(decoders, feed, special, options, room);
  }
  const int64_t most = std::max<int64_t>(1, kMostGpuRows / options.beam);
  room.sentences = std::min(room.sentences, most);
  if (options.beam > kMostGpuBeam || decoders.size() > 1 || !options.plain()) {
    return host_search(decoders, feed, special, options, room);
  }
  device_search(*decoders.front(), feed, special, options, room);
}

std::vector<std::vector<Hypothesis>> beam_search(const Device& device, Transformer& model,
                                                 const Weights& weights,
                                                 const std::vector<Ids>& sources,
                                                 SpecialIds special, const DecodeOptions& options,
                                                 const std::function<void(size_t)>& progress) {
  IncrementalDecoder decoder(device, model, weights);
  return beam_search({&decoder}, sources, special, options, progress);
}

std::vector<std::vector<Hypothesis>> beam_search(const Decoders& decoders,
                                                 const std::vector<Ids>& sources,
                                                 SpecialIds special, const DecodeOptions& options,
                                                 const std::function<void(size_t)>& progress,
                                                 const SourceExtras& extras) {
  ListFeed feed(sources, extras, progress);
  if (!sources.empty()) beam_search(decoders, feed, special, options);
  return feed.take();
}

}  // namespace reigen
