#include "train/run/metric_command.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/files.h"
#include "base/file/own_file.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "config/metric_name.h"
#include "dist/launch/child_process.h"

namespace reigen {
namespace {

constexpr size_t kMostOutput = 1 << 16;  // bytes that are read

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t at = line.find_first_not_of(" \t\r"); at != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(" \t\r", end);
  }
  return words;
}

void write_lines(const std::string& path, const Lines& lines) {
  FileWriter out(path);
  for (const std::string& line : lines) out.write(line + "\n");
  out.close();
}

// The first bytes of a file: a command may print without end.
std::string begin_of(const std::string& path) {
  const Socket file(open_own_for_reading(path));
  std::string text(kMostOutput, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file.fd(), text.data() + size, text.size() - size);
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return printable(text.substr(text.rfind('\n') + 1));
}

// The exit status as in a shell; nothing when the time is over.
std::optional<int> run_in_shell(const EvalOptions& options, const std::string& directory) {
  ChildSpec spec;
  spec.without_secrets = true;
  spec.command = {"sh", "-c",
                  "(\n" + options.command + "\n) > \"$OUTPUT_OF_METRIC\" 2> \"$ERRORS_OF_METRIC\""};
  spec.environment = {
      "SOURCE=" + directory + "/source.txt", "HYPOTHESIS=" + directory + "/hypothesis.txt",
      "REFERENCE=" + directory + "/reference.txt", "OUTPUT_OF_METRIC=" + directory + "/output.txt",
      "ERRORS_OF_METRIC=" + directory + "/errors.txt"};
  ChildProcess child(spec);
  const Stopwatch watch;
  while (options.command_limit == 0 || watch.seconds() < options.command_limit) {
    if (const std::optional<int> status = child.ended()) return status;
    check_interrupt();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return std::nullopt;
}

}  // namespace

Spans parse_metrics(std::string_view output) {
  Spans metrics;
  while (!output.empty() && metrics.size() < kMostMetrics) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(output.size(), line.size() + 1));
    const std::vector<std::string_view> words = words_of(line);
    if (words.size() != 2 || !is_metric_name(words[0])) continue;
    double value = 0;
    const char* end = words[1].data() + words[1].size();
    const auto [read, error] = std::from_chars(words[1].data(), end, value);
    if (error != std::errc() || read != end || !std::isfinite(value)) continue;
    const bool again = std::any_of(metrics.begin(), metrics.end(),
                                   [&](const auto& metric) { return metric.first == words[0]; });
    if (!again) metrics.emplace_back(words[0], value);
  }
  return metrics;
}

Spans scores_by_command(const EvalOptions& options, const std::string& directory,
                        const TranslatedLines& lines) {
  try {
    std::filesystem::create_directories(directory);
    const std::string place = std::filesystem::absolute(directory).string();
    write_lines(place + "/source.txt", lines.sources);
    write_lines(place + "/hypothesis.txt", lines.hypotheses);
    write_lines(place + "/reference.txt", lines.references);
    // Made here, because the shell would follow a link of that name.
    for (const char* name : {"/output.txt", "/errors.txt"}) write_lines(place + name, {});
    const std::optional<int> status = run_in_shell(options, place);
    if (!status) {
      log_warning(
          format("eval.command did not end within {} and was stopped, so its scores are "
                 "missing; raise eval.command-limit",
                 human_seconds(options.command_limit)));
      return {};
    }
    const std::string errors = last_line(begin_of(place + "/errors.txt"));
    if (*status != 0) {
      log_warning(format("eval.command ended with status {}, so its scores are missing{}", *status,
                         errors.empty() ? "" : ": " + errors));
      return {};
    }
    const std::string output = begin_of(place + "/output.txt");
    Spans metrics = parse_metrics(output);
    if (metrics.empty()) {
      const std::string said = last_line(output.empty() ? errors : output);
      log_warning(format("eval.command printed no line `name value`, so its scores are missing{}",
                         said.empty() ? "" : "; its last line: " + said));
    }
    return metrics;
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& e) {
    log_warning(format("eval.command could not be run, so its scores are missing: {}", e.what()));
    return {};
  }
}

}  // namespace reigen
