#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "base/printable.h"
#include "base/thread.h"

namespace reigen {
namespace {

using Clock = std::chrono::steady_clock;

std::mutex g_stderr_mutex;
bool g_quiet = false;
std::function<void(std::string_view)> g_copy;
std::string g_bar;  // the status line now on the terminal, or empty

// False for a worker of a launcher: the launcher escapes and colours the lines of its workers.
bool use_colour() { return isatty(STDERR_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr; }

void write_stderr(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

struct Tag {
  std::string_view text;
  std::string_view colour;
};
constexpr Tag kNoTag = {};
constexpr Tag kWarning = {"warning: ", "33"};
constexpr Tag kError = {"error: ", "31"};
constexpr Tag kWaiting = {"waiting: ", "33"};
constexpr Tag kLeaving = {"leaving: ", "33"};
constexpr std::string_view kUpTo = "up to ";

// `from` precedes the tag: the worker that logged the line.
void log_line(std::string_view from, const Tag& tag, std::string_view message, bool shown = true,
              bool copied = true) {
  const std::string text = printable(message);
  std::string line = printable(from);
  if (!tag.text.empty() && use_colour()) {
    line += format("\x1b[{}m{}\x1b[0m ", tag.colour, tag.text.substr(0, tag.text.size() - 1));
  } else {
    line += tag.text;
  }
  line += text;
  line += '\n';
  std::lock_guard lock(g_stderr_mutex);
  if (g_copy && copied) g_copy(format("{}{}{}", printable(from), tag.text, text));
  if (!shown) return;
  if (!g_bar.empty()) line = "\r\x1b[K" + line + g_bar;
  write_stderr(line);
  std::fflush(stderr);
}

// A bar wider than the terminal would wrap, and every redraw would leave a line behind.
std::string fitted(std::string line) {
  if (const int width = terminal_width(); width > 1) {
    line.resize(std::min(line.size(), static_cast<size_t>(width - 1)));  // a bar is plain ASCII
  }
  return line;
}

}  // namespace

void log_note(std::string_view message) { log_line("", kNoTag, message, !g_quiet); }
void log_warning(std::string_view message) { log_line("", kWarning, message); }
void log_error(std::string_view message) { log_line("", kError, message); }
void set_quiet(bool quiet) { g_quiet = quiet; }
void log_copy_only(std::string_view message) { log_line("", kNoTag, message, false); }
void log_terminal_only(std::string_view message) { log_line("", kNoTag, message, !g_quiet, false); }

void log_waiting(std::chrono::seconds limit, std::string_view message) {
  log_line("", kWaiting, format("{}{} s {}", kUpTo, limit.count(), message));
}

std::optional<std::chrono::seconds> waiting_limit(std::string_view line) {
  if (!line.starts_with(kWaiting.text)) return std::nullopt;
  line.remove_prefix(kWaiting.text.size());
  if (!line.starts_with(kUpTo)) return std::nullopt;
  line.remove_prefix(kUpTo.size());
  uint32_t seconds = 0;  // 136 years at most: adding it to a time does not overflow
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), seconds);
  if (error != std::errc() || !std::string_view(end, line.data() + line.size()).starts_with(" s "))
    return std::nullopt;
  return std::chrono::seconds(seconds);
}

void log_leaving(std::string_view message) { log_line("", kLeaving, message); }

bool is_leaving(std::string_view line) { return line.starts_with(kLeaving.text); }

void log_from(std::string_view origin, std::string_view line) {
  const std::string from = format("[{}] ", origin);
  for (const Tag& tag : {kWarning, kError, kWaiting, kLeaving}) {
    if (line.starts_with(tag.text)) return log_line(from, tag, line.substr(tag.text.size()));
  }
  log_line(from, kNoTag, line, !g_quiet);
}

void set_log_copy(std::function<void(std::string_view)> copy) {
  std::lock_guard lock(g_stderr_mutex);
  g_copy = std::move(copy);
}

void show_status(std::string_view text) {
  if (g_quiet || !stderr_is_terminal()) return;
  std::lock_guard lock(g_stderr_mutex);
  g_bar = fitted(printable_line(text));
  write_stderr("\r\x1b[K" + g_bar);
  std::fflush(stderr);
}

void print_unescaped(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw IoError(format("cannot write to standard output: {}", errno_text(errno)));
  }
}

void print(std::string_view text) {
  if (isatty(STDOUT_FILENO) == 1) return print_unescaped(printable(text));
  print_unescaped(text);
}

// Asked each time: with --detach, stderr becomes a file after the first lines may be logged.
bool stderr_is_terminal() {
  return isatty(STDERR_FILENO) == 1 || std::getenv("REIGEN_TERMINAL") != nullptr;
}

int terminal_width() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) return size.ws_col;
  const char* passed_on = std::getenv("REIGEN_TERMINAL");
  return passed_on == nullptr ? 0 : std::atoi(passed_on);
}

size_t display_width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void Table::row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string Table::text(std::string_view indent) const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line(indent);
    for (size_t c = 0; c < row.size(); ++c) {
      std::string pad(widths[c] - display_width(row[c]), ' ');
      if (c > 0) line += "  ";
      const bool left =
          std::find(text_columns_.begin(), text_columns_.end(), c) != text_columns_.end();
      line += left ? row[c] + pad : pad + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

struct Progress::State {
  std::string label;
  uint64_t total;
  std::string unit;
  Clock::time_point start = Clock::now();
  std::atomic<uint64_t> done = 0;
  std::mutex mutex;
  std::condition_variable wake;
  bool ended = false;
  std::thread painter;

  std::string line() const {
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    uint64_t now = done.load();
    std::string text = format("{:<10}", label);
    if (total > 0) {
      double share = std::min(1.0, static_cast<double>(now) / static_cast<double>(total));
      auto full = static_cast<size_t>(share * 24);
      text += format(" [{}{}] {:3.0f}%", std::string(full, '#'), std::string(24 - full, '.'),
                     std::min(99.0, share * 100));
      if (now > 0) {
        text += format("  {} left", human_seconds(seconds * (1 - share) / std::max(share, 1e-9)));
      }
    }
    if (now > 0 && unit == "B") {
      auto rate = static_cast<uint64_t>(static_cast<double>(now) / std::max(seconds, 1e-9));
      text += format("  {}/s", human_bytes(rate));
    } else if (now > 0 && !unit.empty()) {
      auto rate = static_cast<uint64_t>(static_cast<double>(now) / std::max(seconds, 1e-9));
      text += format("  {} {}/s", with_commas(rate), unit);
    }
    return text + format("  {}", human_seconds(seconds));
  }

  void paint() {
    const bool terminal = stderr_is_terminal();
    auto pause = std::chrono::milliseconds(terminal ? 200 : 10'000);
    std::unique_lock lock(mutex);
    if (wake.wait_for(lock, std::chrono::seconds(1), [this] { return ended; })) return;
    do {
      if (terminal) {
        std::lock_guard out(g_stderr_mutex);
        g_bar = fitted(printable_line(line()));
        write_stderr("\r\x1b[K" + g_bar);
        std::fflush(stderr);
      } else {
        log_note(line());
      }
    } while (!wake.wait_for(lock, pause, [this] { return ended; }));
    if (terminal) {
      std::lock_guard out(g_stderr_mutex);
      g_bar.clear();
      write_stderr("\r\x1b[K");
      std::fflush(stderr);
    }
  }
};

Progress::Progress(std::string label, uint64_t total, std::string unit)
    : state_(std::make_unique<State>()) {
  state_->label = std::move(label);
  state_->total = total;
  state_->unit = std::move(unit);
  if (!g_quiet) state_->painter = thread_without_signals([this] { state_->paint(); });
}

Progress::~Progress() {
  {
    std::lock_guard lock(state_->mutex);
    state_->ended = true;
  }
  state_->wake.notify_all();
  if (state_->painter.joinable()) state_->painter.join();
}

void Progress::set(uint64_t done) { state_->done = done; }
void Progress::add(uint64_t more) { state_->done += more; }

}  // namespace reigen
