#include "doctor/offers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/terminal.h"
#include "config/yaml.h"
#include "data/batches.h"
#include "doctor/doctor.h"
#include "model/flops.h"
#include "model/transformer.h"
#include "optim/schedule.h"
#include "train/last_step.h"
#include "train/run/setup.h"

namespace reigen {
namespace {

std::string range_text(const Spread& r, const std::string& likely, const std::string& low,
                       const std::string& high) {
  return r.low == r.high ? likely : format("{} ({} to {})", likely, low, high);
}

std::string hours_text(const Spread& r) {
  const auto text = [](double hours) { return human_seconds(3600 * hours); };
  return range_text(r, text(r.likely), text(r.low), text(r.high));
}

std::string cost_text(const Spread& r) {
  const auto text = [](double cost) {
    return cost < 1 ? format("{:.3f}", cost) : format("{:.2f}", cost);
  };
  return range_text(r, text(r.likely), text(r.low), text(r.high));
}

Json range_json(const Spread& r) {
  return {{"low", r.low}, {"likely", r.likely}, {"high", r.high}};
}

std::string machines_text(const Offer& o) {
  const std::string one = o.gpu.empty() ? counted(static_cast<uint64_t>(o.cores), "core")
                                        : format("{} x {}", o.gpus, o.gpu);
  return o.machines == 1 ? one : format("{} machines with {}", o.machines, one);
}

Offer read_offer(const std::string& name, const Json& fields) {
  constexpr int64_t kMost = 100'000;
  constexpr double kMostPrice = 1e6;
  if (!fields.is_object()) throw ConfigError("expected fields such as price, gpu and link");
  Offer o;
  o.name = name;
  o.price = -1;
  for (const auto& [key, value] : fields.items()) {
    const std::string text = scalar(value);
    if (key == "price") {
      o.price = parse_number(text, 0, kMostPrice);
    } else if (key == "machines") {
      o.machines = static_cast<int>(parse_integer(text, 1, kMost));
    } else if (key == "gpu") {
      o.gpu = known_gpu(text);
    } else if (key == "gpus") {
      o.gpus = static_cast<int>(parse_integer(text, 1, kMost));
    } else if (key == "cores") {
      o.cores = static_cast<int>(parse_integer(text, 1, kMost));
    } else if (key == "link") {
      o.link = parse_rate(text);
    } else {
      throw ConfigError(format(
          "'{}' is not a field of an offer; fields are price, machines, gpu, gpus, cores, link",
          key));
    }
  }
  if (o.price < 0) throw ConfigError("price is missing: that of one machine for an hour");
  if (o.gpu.empty() == (o.cores == 0)) throw ConfigError("give either gpu or cores");
  if (o.machines > 1 && o.link == 0)
    throw ConfigError("several machines need the link between them, such as link: 10gbit");
  return o;
}

}  // namespace

std::vector<Offer> parse_offers(const std::string& yaml, const std::string& file) {
  const Json tree = parse_yaml(yaml, file);
  if (!tree.is_object() || tree.empty())
    throw ConfigError(
        format("{}: expected offers by name; recipes/offers.yaml is an example", file));
  std::vector<Offer> offers;
  for (const auto& [name, fields] : tree.items()) {
    try {
      offers.push_back(read_offer(name, fields));
    } catch (const ConfigError& e) {
      throw ConfigError(format("{}: offer '{}': {}", file, name, e.what()));
    }
  }
  return offers;
}

std::vector<RankedOffer> rank_offers(const std::vector<Offer>& offers, const OfferedJob& job) {
  std::vector<RankedOffer> ranked;
  ranked.reserve(offers.size());
  for (const Offer& offer : offers) ranked.push_back(predict_offer(offer, job));
  std::stable_sort(ranked.begin(), ranked.end(), [](const RankedOffer& a, const RankedOffer& b) {
    return std::pair(a.cost.likely, a.hours.likely) < std::pair(b.cost.likely, b.hours.likely);
  });
  return ranked;
}

Json to_json(const std::vector<RankedOffer>& ranked) {
  Json list = Json::array();
  for (const RankedOffer& r : ranked) {
    list.push_back({{"name", r.offer.name},
                    {"machines", r.offer.machines},
                    {"compress", text_of(r.compress)},
                    {"step_seconds", range_json(r.step)},
                    {"hours", range_json(r.hours)},
                    {"cost", range_json(r.cost)},
                    {"reference", r.reference},
                    {"estimated", r.estimated}});
  }
  return {{"offers", list}};
}

std::string to_text(const std::vector<RankedOffer>& ranked) {
  Table table;
  table.row({"offer, cheapest first", "machines", "cost", "time", "step"});
  for (const RankedOffer& r : ranked) {
    table.row({r.offer.name, machines_text(r.offer), cost_text(r.cost), hours_text(r.hours),
               human_seconds(r.step.likely)});
  }
  for (size_t column : {1, 2, 3}) table.text_column(column);
  std::string text = table.text() + "\n";
  const auto by_time = [](const RankedOffer& a, const RankedOffer& b) {
    return a.hours.likely < b.hours.likely;
  };
  const RankedOffer& cheapest = ranked.front();
  const RankedOffer& fastest = *std::min_element(ranked.begin(), ranked.end(), by_time);
  text += format("cheapest: {}, {}; fastest: {}, {}\n", cheapest.offer.name,
                 cost_text(cheapest.cost), fastest.offer.name, hours_text(fastest.hours));
  std::string rivals;
  for (const RankedOffer& r : ranked) {
    const bool other = &r != &cheapest && r.cost.low <= cheapest.cost.high;
    if (other) rivals += format("{}{}", rivals.empty() ? "" : ", ", r.offer.name);
  }
  if (!rivals.empty())
    text += format("may be as cheap as {}, because the intervals overlap: {}\n",
                   cheapest.offer.name, rivals);
  for (const RankedOffer& r : ranked) {
    text += r.estimated.empty() ? format("{}: measured on {}\n", r.offer.name, r.reference)
                                : format("{}: an estimate from {}; never measured: {}\n",
                                         r.offer.name, r.reference, fmt::join(r.estimated, "; "));
  }
  return text +
         "without evaluations and checkpoints, and without the time to rent, copy and start\n";
}

std::string compare_offers(const DoctorOptions& given) {
  constexpr uint64_t kMostOffersBytes = 1 << 20;
  const std::vector<Offer> offers =
      parse_offers(read_file(given.offers, kMostOffersBytes), given.offers);
  TrainOptions options = given.train;
  options.given = given.given;
  if (options.data.empty()) throw ConfigError("--data is required (written by reigen prepare)");
  options = resolve(with_recipe(options));
  check_schedule(options.schedule);
  const TrainingData data = open_data(options);
  const Transformer model(options.model, options.dropout, data.vocabulary.pieces());
  const GlobalBatch batch =
      BatchStream(data.train, static_cast<uint64_t>(options.seed), batch_size(options)).next();
  const TokenFlops flops = token_flops(options.model, static_cast<int64_t>(data.vocabulary.size()));
  options.schedule.last_step = planned_last_step(options, data.train);
  OfferedJob job;
  job.layout = &model.layout();
  job.width = options.model.width;
  job.flops = flops.source * static_cast<double>(batch.source_tokens) +
              flops.target * static_cast<double>(batch.target_tokens);
  job.muon = options.optimizer.kind == OptimizerKind::kMuon;
  job.compress = options.workers.compress;
  job.steps = run_steps(
      options, planned_decay(options.schedule),
      static_cast<double>(data.manifest.train_pairs()) / static_cast<double>(batch.pairs.size()));
  if (!std::isfinite(job.steps)) {
    throw ConfigError(
        "offers are compared by the time of a whole run, and its number of steps is not known; "
        "give --max-steps or --max-epochs");
  }
  const std::vector<RankedOffer> ranked = rank_offers(offers, job);
  if (given.json) return pretty(to_json(ranked));
  std::string text =
      format("{}, {} target tokens per step, {} steps\n\n",
             counted(model.layout().parameters(), "parameter"), with_commas(batch.target_tokens),
             with_commas(static_cast<uint64_t>(job.steps)));
  if (!options.chosen.empty()) text += options.chosen + "\n\n";
  return text + to_text(ranked);
}

}  // namespace reigen
