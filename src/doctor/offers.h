// `reigen doctor --offers FILE`: machines that are not rented yet, ranked for a job by cost and
// time.
//
// Nothing is measured here. The time of a step follows from the reference speeds of
// bench/results/reference-speeds.json, which is compiled in, and from the step model of plan/.
// Parts that were never measured (another GPU, another size of model, a link) have a name and a
// wider interval in the prediction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "config/doctor_options.h"
#include "dist/compress/compressor.h"

namespace reigen {

struct Offer {
  std::string name;
  double price = 0;  // of one machine for an hour
  int machines = 1;
  std::string gpu;  // as in the data sheets of offers.cpp; empty: the machine computes on its cores
  int gpus = 1;     // of a machine
  int cores = 0;    // of a machine without a GPU
  double link = 0;  // bytes per second between machines, or of one between its GPUs; 0: not given
};

// A map of offers by name. Throws ConfigError that begins with `file` and names offer and field.
std::vector<Offer> parse_offers(const std::string& yaml, const std::string& file);

// A prediction with the lowest and the highest value that are plausible.
struct Spread {
  double low = 0;
  double likely = 0;
  double high = 0;
};

// The user's job, as far as its time depends on it.
struct OfferedJob {
  const ParameterLayout* layout = nullptr;
  int64_t width = 0;
  double flops = 0;  // of the products of a step
  bool muon = false;
  double steps = 0;
  CompressSetting compress;
};

struct RankedOffer {
  Offer offer;
  CompressSetting compress;
  Spread step;   // seconds
  Spread hours;  // of the run, without evaluations and checkpoints
  Spread cost;
  std::string reference;               // the measurement that it is scaled from
  std::vector<std::string> estimated;  // parts that were never measured
};

// The name of a GPU as its data sheet is known. Throws ConfigError that lists the known ones.
std::string known_gpu(const std::string& name);

RankedOffer predict_offer(const Offer& offer, const OfferedJob& job);

// By rising likely cost; offers that cost the same by time.
std::vector<RankedOffer> rank_offers(const std::vector<Offer>& offers, const OfferedJob& job);

Json to_json(const std::vector<RankedOffer>& ranked);
std::string to_text(const std::vector<RankedOffer>& ranked);

// Reads the file of --offers and the dataset, and returns the text to print.
std::string compare_offers(const DoctorOptions& options);

}  // namespace reigen
