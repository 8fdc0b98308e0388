// The time and cost of a job on machines that are offered: reference speeds, scaled.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "doctor/offers.h"
#include "model/flops.h"
#include "model/transformer.h"
#include "plan/step_prediction.h"

namespace reigen {

namespace web {
extern const std::string_view reference_speeds;
}

namespace {

// Dense bf16 (of Turing and Volta fp16) with fp32 accumulation, and memory: NVIDIA's data sheets.
struct DataSheet {
  const char* name;
  double teraflops;
  double gigabytes;  // per second
};
constexpr std::array<DataSheet, 18> kDataSheets = {{{"B200", 2250, 8000},
                                                    {"H200", 989, 4800},
                                                    {"H100", 989, 3350},
                                                    {"H100 PCIe", 756, 2000},
                                                    {"H100 NVL", 835, 3900},
                                                    {"GH200", 989, 4000},
                                                    {"A100", 312, 2039},
                                                    {"A100 40GB", 312, 1555},
                                                    {"L40S", 362, 864},
                                                    {"L4", 121, 300},
                                                    {"A10G", 70, 600},
                                                    {"A10", 125, 600},
                                                    {"A6000", 155, 768},
                                                    {"RTX 4090", 165, 1008},
                                                    {"RTX 3090", 71, 936},
                                                    {"RTX 5090", 210, 1792},
                                                    {"V100", 125, 900},
                                                    {"T4", 65, 320}}};

const DataSheet& data_sheet(const std::string& name) {
  const auto* found = std::find_if(kDataSheets.begin(), kDataSheets.end(),
                                   [&](const DataSheet& d) { return name == d.name; });
  if (found != kDataSheets.end()) return *found;
  std::string names;
  for (const DataSheet& d : kDataSheets) names += format("{}{}", names.empty() ? "" : ", ", d.name);
  throw ConfigError(format("gpu '{}' is not known; known are {}", name, names));
}

// A row of bench/results/reference-speeds.json.
struct Reference {
  std::string device;  // "NVIDIA H200"
  std::string gpu;     // name of its data sheet; empty: one core of a processor
  int64_t width = 0;
  double flops = 0;       // of a step
  double parameters = 0;  // of the model
  bool muon = false;
  double seconds = 0;    // of a step
  double optimizer = 0;  // of these; does not grow with the batch
};

constexpr double kMilliseconds = 1e-3;

// Where a row has none, that of an earlier row of the same device, by the number of parameters.
double optimizer_seconds(const Json& measured, const Reference& r,
                         const std::vector<Reference>& earlier) {
  if (!measured.is_null()) return kMilliseconds * measured.get<double>();
  for (const Reference& e : earlier) {
    if (e.device == r.device && e.muon == r.muon) return e.optimizer * r.parameters / e.parameters;
  }
  return 0;
}

std::vector<Reference> read_references() {
  const Json file = parse_json(web::reference_speeds, "reference-speeds.json");
  std::vector<std::string> keys;
  for (const Json& column : file.at("columns")) keys.push_back(column.at("key"));
  std::vector<Reference> all;
  for (const Json& row : file.at("rows")) {
    Json r;
    for (size_t i = 0; i < keys.size(); ++i) r[keys[i]] = row.at(i);
    // Whether a processor is fast in bf16 is not known before it is rented.
    if (r.at("gpu").is_null() && r.at("precision") != "fp32") continue;
    const ModelOptions model = model_preset(r.at("preset"));
    const auto pieces = r.at("pieces").get<uint32_t>();
    const TokenFlops flops = token_flops(model, pieces);
    Reference reference;
    reference.device = r.at("device");
    if (!r.at("gpu").is_null()) reference.gpu = r.at("gpu");
    reference.width = model.width;
    reference.flops = flops.source * r.at("source_tokens").get<double>() +
                      flops.target * r.at("target_tokens").get<double>();
    reference.parameters =
        static_cast<double>(Transformer(model, {}, PieceCounts(pieces)).layout().elements());
    reference.muon = r.at("optimizer") == "Muon";
    reference.seconds = kMilliseconds * r.at("ms").get<double>();
    reference.optimizer = optimizer_seconds(r.at("optimizer_ms"), reference, all);
    all.push_back(reference);
  }
  return all;
}

// Of the kind of device: the same GPU before others, then the same optimizer, then the model and
// the batch of the nearest size.
const Reference& nearest_reference(const std::vector<Reference>& all, const Offer& offer,
                                   const OfferedJob& job) {
  const auto distance = [&](const Reference& r) {
    constexpr double kOther = 1e6;
    double far = 0;
    if (r.gpu.empty() != offer.gpu.empty()) far += kOther * kOther;
    if (r.gpu != offer.gpu) far += kOther;
    const double widths = static_cast<double>(job.width) / static_cast<double>(r.width);
    far += 100 * std::abs(std::log(widths)) + (r.muon != job.muon ? 10 : 0);
    return far + std::abs(std::log(job.flops / r.flops)) / 10;
  };
  return *std::min_element(all.begin(), all.end(), [&](const Reference& a, const Reference& b) {
    return distance(a) < distance(b);
  });
}

Spread scaled(const Spread& r, double low, double likely, double high) {
  return {r.low * low, r.likely * likely, r.high * high};
}
Spread scaled(const Spread& r, double by) { return scaled(r, by, by, by); }

// The widths of all intervals are judgement, not statistics; docs/guide/how-fast.md gives them.
constexpr double kRepeat = 1.1;  // between two measurements of the same

// Forward and backward of the whole batch on one device of the offer.
Spread compute_seconds(const Offer& offer, const OfferedJob& job, const Reference& reference,
                       std::vector<std::string>& estimated) {
  const double ratio = job.flops / reference.flops;
  Spread seconds = scaled({1 / kRepeat, 1, kRepeat}, reference.seconds - reference.optimizer);
  constexpr double kSimilar = 2;
  const bool similar = ratio < kSimilar && ratio > 1 / kSimilar;
  if (similar && reference.width == job.width) {
    seconds = scaled(seconds, ratio);
  } else if (offer.gpu.empty() || ratio > 1) {
    // A processor, or a GPU that is busy in any case.
    const double off = reference.width == job.width ? 1.2 : 1.4;
    seconds = scaled(seconds, ratio / off, ratio, ratio * off);
    estimated.emplace_back("steps of this size");
  } else {
    // A smaller step leaves a GPU idle between its kernels. Of the measured steps of an H200, one
    // of 1/20 of the work takes that to the power of 0.62, one of 1/65 to 0.6
    // (docs/design/cuda.md).
    constexpr double kLow = 0.8;
    constexpr double kLikely = 0.65;
    constexpr double kHigh = 0.5;
    seconds =
        scaled(seconds, std::pow(ratio, kLow), std::pow(ratio, kLikely), std::pow(ratio, kHigh));
    estimated.emplace_back("steps of this size");
  }
  if (reference.muon != job.muon) estimated.emplace_back("this model with this optimizer");
  if (offer.gpu.empty()) {
    // One core was measured. More of them share memory and caches, and processors differ.
    const double cores = offer.cores;
    seconds = scaled(seconds, std::pow(cores, -1.0) / 1.3, std::pow(cores, -0.9),
                     std::pow(cores, -0.75) * 2.5);
    estimated.push_back(
        format("this processor and {}", counted(static_cast<uint64_t>(offer.cores), "core")));
  } else if (offer.gpu != reference.gpu) {
    const DataSheet& from = data_sheet(reference.gpu);
    const DataSheet& to = data_sheet(offer.gpu);
    const double compute = from.teraflops / to.teraflops;
    const double memory = from.gigabytes / to.gigabytes;
    constexpr double kOff = 1.25;
    seconds = scaled(seconds, std::min(compute, memory) / kOff, std::sqrt(compute * memory),
                     std::max(compute, memory) * kOff);
    estimated.push_back(format("{}, scaled from {} by data sheets", offer.gpu, reference.gpu));
  }
  return seconds;
}

// The update of all parameters, which does not grow with the batch. On an H200 that of Muon takes
// 3.5 times Adam's; where only one of them was measured, the other may be anything near.
Spread update_seconds(const Offer& offer, const OfferedJob& job, const Reference& reference,
                      const std::vector<Reference>& all) {
  const auto own = std::find_if(all.begin(), all.end(), [&](const Reference& r) {
    return r.device == reference.device && r.muon == job.muon;
  });
  const Reference& from = own == all.end() ? reference : *own;
  const double each = from.optimizer / from.parameters;
  Spread seconds = scaled({1, 1, 1}, each * static_cast<double>(job.layout->elements()));
  if (own == all.end()) seconds = scaled(seconds, 1, 3.5, 10);
  if (offer.gpu.empty() || offer.gpu == reference.gpu) return seconds;
  return scaled(seconds, data_sheet(reference.gpu).gigabytes / data_sheet(offer.gpu).gigabytes);
}

// Each part of the prediction at its fastest, likely and slowest.
StepPrediction predict_part(const Offer& offer, const OfferedJob& job, double compute,
                            double optimizer, const LinkModel& link, CompressSetting& setting) {
  Measured m;
  const double devices = offer.machines * (offer.gpu.empty() ? 1.0 : offer.gpus);
  constexpr double kForward = 1.0 / 3;
  m.workers = offer.machines > 1 ? offer.machines : static_cast<int>(devices);
  m.compute = {.forward = kForward * compute / devices,
               .backward = (1 - kForward) * compute / devices,
               .optimizer = optimizer,
               .last_backward = (1 - kForward) * compute / devices};
  m.link = link;
  if (setting.method == CompressMethod::kAuto) setting = choose_setting(m, *job.layout);
  return predict_step(m, *job.layout, setting);
}

struct Links {
  LinkModel fast, likely, slow;
};

// The latency is that of a segment of 1 MB (LinkModel).
Links links_of(const Offer& offer, std::vector<std::string>& estimated) {
  if (offer.machines == 1 && (offer.gpu.empty() || offer.gpus == 1)) return {};
  estimated.emplace_back(offer.machines > 1 ? "the link" : "the link between GPUs");
  if (offer.link > 0) {
    // All-reduces reach 97 to 105% of a raw TCP stream (bench/results/links.json); the stream of a
    // port that is not rented yet is that of its offer, or less.
    return {{.latency = 5e-6, .bandwidth = offer.link},
            {.latency = 2e-5, .bandwidth = 0.9 * offer.link},
            {.latency = 2e-4, .bandwidth = 0.5 * offer.link}};
  }
  // From NVLink over PCIe to host memory.
  return {{.latency = 5e-6, .bandwidth = 200e9},
          {.latency = 2e-5, .bandwidth = 20e9},
          {.latency = 1e-4, .bandwidth = 3e9}};
}

}  // namespace

std::string known_gpu(const std::string& name) { return data_sheet(name).name; }

RankedOffer predict_offer(const Offer& offer, const OfferedJob& job) {
  static const std::vector<Reference> kReferences = read_references();
  const Reference& reference = nearest_reference(kReferences, offer, job);
  RankedOffer r;
  r.offer = offer;
  r.reference = reference.device;
  const Spread compute = compute_seconds(offer, job, reference, r.estimated);
  const Spread update = update_seconds(offer, job, reference, kReferences);
  const Links links = links_of(offer, r.estimated);
  r.compress = job.compress;  // the likely case decides what auto chooses
  const auto step = [&](double seconds, double update_time, const LinkModel& link) {
    return predict_part(offer, job, seconds, update_time, link, r.compress).seconds;
  };
  r.step.likely = step(compute.likely, update.likely, links.likely);
  r.step.low = step(compute.low, update.low, links.fast);
  r.step.high = step(compute.high, update.high, links.slow);
  constexpr double kHour = 3600;
  r.hours = scaled(r.step, job.steps / kHour);
  r.cost = scaled(r.hours, offer.price * offer.machines);
  return r;
}

}  // namespace reigen
