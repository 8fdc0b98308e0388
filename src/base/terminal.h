// What a person sees: log lines and progress on stderr, results on stdout, colour only on a TTY.
//
// One mutex orders everything written to stderr, so a log line never lands inside a progress bar.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace reigen {

// Progress and context; `--quiet` silences notes, never warnings or errors.
void log_note(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);
void set_quiet(bool quiet);

// Every line that is logged, tagged and without colour, also goes here; notes do even when quiet.
// Called with the terminal's lock held, so it must not log. Null for none.
void set_log_copy(std::function<void(std::string_view line)> copy);

// The last line of a terminal, replaced each time; nothing where there is no terminal. An empty
// text takes it away.
void show_status(std::string_view text);

// A line for the copy alone: what a terminal shows as its status.
void log_copy_only(std::string_view message);

// Writes a result to stdout; throws IoError when nobody can read it (a full disk, a closed pipe).
void print(std::string_view text);

// A worker whose output is passed on to a terminal (REIGEN_TERMINAL, its width) counts as on one.
bool stderr_is_terminal();
int terminal_width();  // columns; 0 when nobody knows

// Columns padded to their widest cell: the first left-aligned, the others right-aligned but for
// those that hold text.
class Table {
 public:
  void row(std::vector<std::string> cells);
  void text_column(size_t column) { text_columns_.push_back(column); }
  std::string text(std::string_view indent = "  ") const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> text_columns_ = {0};
};

// How wide `text` is on screen, counting characters rather than bytes.
size_t display_width(std::string_view text);

// A bar with rate and ETA. On a TTY one line that redraws itself; elsewhere a plain line every ten
// seconds. Says nothing about work that ends within a second. A total of 0 means unknown; without
// a unit no rate is shown.
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
