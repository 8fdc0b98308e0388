// Terminal output: log lines and progress on stderr, results on stdout, colour only on a TTY.
//
// One mutex orders all writes to stderr, so that a log line never appears inside a progress bar.
// Text may come from outside: a terminal and the log's copy get it escaped (base/printable.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reigen {

// Progress and context; `--quiet` silences notes, never warnings or errors.
void log_note(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);
void set_quiet(bool quiet);

// A wait that this process limits itself, such as for room on a full disk: "waiting: up to 60 s
// for room". A launcher that reads such a line from a worker gives it that time.
void log_waiting(std::chrono::seconds limit, std::string_view message);
std::optional<std::chrono::seconds> waiting_limit(std::string_view line);

// This process ends soon, because its host will be taken away: "leaving: AWS announced ...". A
// launcher that reads such a line from a worker starts none on that host for a while.
void log_leaving(std::string_view message);
bool is_leaving(std::string_view line);

// A line that a different process logged, with its origin in front: "[1] warning: ...".
void log_from(std::string_view origin, std::string_view line);

// `copy` receives every logged line with its tag and without colour, notes even with --quiet. It is
// called under the terminal's lock and must not log. Null removes it.
void set_log_copy(std::function<void(std::string_view line)> copy);

// Replaces the status line, the last line of the terminal; does nothing without a terminal. An
// empty text removes the line.
void show_status(std::string_view text);

// Logs a line to the copy alone, for text that a terminal shows as its status line.
void log_copy_only(std::string_view message);

// Logs a note on the terminal alone, for text that must not be in a file, such as a secret.
void log_terminal_only(std::string_view message);

// Writes a result to stdout, escaped if that is a terminal; throws IoError for a full disk or a
// closed pipe. The second writes control sequences of our own.
void print(std::string_view text);
void print_unescaped(std::string_view text);

// Also true if a launcher forwards this worker's output to a terminal (REIGEN_TERMINAL is its
// width).
bool stderr_is_terminal();
int terminal_width();  // in columns; 0 if unknown

// Columns padded to their widest cell: the first and text columns left-aligned, the others
// right-aligned.
class Table {
 public:
  void row(std::vector<std::string> cells);
  void text_column(size_t column) { text_columns_.push_back(column); }
  std::string text(std::string_view indent = "  ") const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> text_columns_ = {0};
};

// The number of characters, not bytes.
size_t display_width(std::string_view text);

// A progress bar with rate and remaining time. On a TTY one line that is redrawn; elsewhere a plain
// line every ten seconds. Work that ends within a second shows nothing. A total of 0 means unknown;
// without a unit no rate is shown.
class Progress {
 public:
  Progress(std::string label, uint64_t total, std::string unit = "");
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void set(uint64_t done);  // any thread
  void add(uint64_t more);  // any thread

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reigen
