// Where the time of decoding on a GPU goes: the parts of the start, and each operation of a search.
//
//     decode_time MODEL TEXT [lines] [batch tokens]
//
// The whole text is translated once with the plain GPU and once with timed operations.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/terminal.h"
#include "data/input/line_reader.h"
#include "decode/translator.h"
#include "device/gpu.h"
#include "model/saved_model.h"
#include "ops/beam_step.h"
#include "timed_ops.h"

namespace reigen::bench {
namespace {

class Watch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void print_operations(std::vector<OpTime> times) {
  auto longer = [](const OpTime& a, const OpTime& b) {
    return a.milliseconds() > b.milliseconds();
  };
  std::sort(times.begin(), times.end(), longer);
  std::map<std::string, double> groups;
  double sum = 0;
  for (const OpTime& op : times) {
    groups[op.group] += op.milliseconds();
    sum += op.milliseconds();
  }
  Table table;
  table.row({"operation", "calls", "us", "ms", "TFLOP/s"});
  for (size_t i = 0; i < std::min<size_t>(30, times.size()); ++i) {
    const OpTime& op = times[i];
    table.row({op.name, format("{:.0f}", op.count), format("{:.1f}", op.microseconds),
               format("{:.1f}", op.milliseconds()),
               op.flops > 0 ? format("{:.0f}", 1e-6 * op.flops / op.microseconds) : ""});
  }
  print(table.text());
  for (const auto& [group, ms] : groups) print(format("  {:<20} {:8.1f} ms\n", group, ms));
  print(format("  {:<20} {:8.1f} ms\n", "all operations", sum));
}

int run(const std::string& path, const std::string& text, size_t count, int64_t batch_tokens) {
  Watch watch;
  DeviceOptions device;
  device.device = "cuda";
  OpenedDevice opened = open_device(device, 0);
  print(format("open the GPU   {:.3f} s\n", watch.lap()));
  SavedModel saved = load_model(path);
  print(format("load the model {:.3f} s\n", watch.lap()));
  PlacedModel placed(saved, opened);
  print(format("copy the model {:.3f} s\n", watch.lap()));
  LineReader reader(text);
  std::vector<std::string> lines;
  for (std::string line; lines.size() < count && reader.next(line);) lines.push_back(line);
  // What is done for the first time takes longest: the parts of a first search, then of a second.
  for (int i = 0; i < 2; ++i) {
    IncrementalDecoder decoder(opened.device, *saved.model, placed.weights.view());
    std::vector<double> parts;
    auto lap = [&] {
      opened.device.gpu()->wait();
      parts.push_back(1000 * watch.lap());
    };
    watch.lap();
    const std::vector<uint32_t> source = {5, 6, 7, 8, 9, saved.vocabulary.eos()};
    decoder.reserve(128, 80);
    decoder.add(source, std::vector<uint32_t>{0, 6}, std::vector<int64_t>{80});
    lap();
    const Tensor logits = decoder.step(std::vector<uint32_t>{0}, std::vector<uint32_t>{1});
    lap();
    std::vector<uint32_t> rows(8), tokens(8);
    std::vector<double> totals(8);
    beam_step(opened.device, {logits, std::vector<double>{0}, std::vector<uint32_t>{0, 1}, 8, rows,
                              tokens, totals});
    lap();
    for (int step = 0; step < 3; ++step) {
      decoder.step(std::vector<uint32_t>(4, 0), std::vector<uint32_t>(4, 7));
      lap();
    }
    print(format(
        "encode {:.1f} ms, step {:.1f}, beam step {:.1f}, steps of 4 rows {:.1f} {:.1f} {:.1f}\n",
        parts[0], parts[1], parts[2], parts[3], parts[4], parts[5]));
  }
  const DecodeOptions options{.batch_tokens = batch_tokens};
  auto translate = [&](const Device& on, size_t first) {
    Translator translator(on, *saved.model, placed.weights.view(), saved.vocabulary,
                          text_rules(saved), options);
    watch.lap();
    const EncodedLines encoded = translator.encode(std::span(lines).first(first));
    const double encoding = watch.lap();
    IncrementalDecoder decoder(on, *saved.model, placed.weights.view());
    const auto found = beam_search({&decoder}, encoded.sources,
                                   {saved.vocabulary.bos(), saved.vocabulary.eos()}, options);
    const double searching = watch.lap();
    translator.join(encoded, found);
    const double joining = watch.lap();
    const auto tokens = static_cast<double>(translator.counts().target_tokens);
    print(format("{} lines: encode {:.3f} s, search {:.3f} s ({} tokens/s), join {:.3f} s\n", first,
                 encoding, searching, with_commas(static_cast<uint64_t>(tokens / searching)),
                 joining));
  };
  for (const size_t first : {size_t{1}, size_t{1}, size_t{100}, size_t{1000}, lines.size()}) {
    translate(opened.device, std::min(first, lines.size()));
  }
  translate(opened.device, lines.size());
  TimedDevice timed(opened.device);
  translate(timed.device(), lines.size());
  print_operations(timed.times(1));
  return 0;
}

}  // namespace
}  // namespace reigen::bench

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return reigen::bench::run(argv[1], argv[2],
                            argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 10'000,
                            argc > 4 ? std::strtol(argv[4], nullptr, 10) : 0);
}
