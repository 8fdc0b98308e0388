// `reigen top`: a run in a plain terminal, redrawn every second and when the window changes.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "observe/record/run_reader.h"
#include "report/live/top_picture.h"

namespace reigen {
namespace {

constexpr int kUsualWidth = 100;  // without a terminal
constexpr int kPollMilliseconds = 50;

struct Window {
  int width = kUsualWidth;
  int height = 24;
  bool operator==(const Window&) const = default;
};

Window window_now() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {size.ws_col, std::max<int>(size.ws_row, 2)};
}

// The alternate screen, without a cursor and with unbuffered keys; the destructor restores all.
class Screen {
 public:
  Screen() {
    if (tcgetattr(STDIN_FILENO, &before_) == 0) {
      keys_ = true;
      termios raw = before_;
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    print_unescaped("\x1b[?1049h\x1b[?25l");
  }
  ~Screen() {
    if (keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    try {
      print_unescaped("\x1b[?25h\x1b[?1049l");
    } catch (const std::exception&) {  // the terminal is closed
    }
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // The keys typed within a moment; empty for none.
  std::string typed() const {
    pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (poll(keys_ ? &input : nullptr, keys_ ? 1 : 0, kPollMilliseconds) <= 0) return "";
    char text[16];
    const ssize_t got = read(STDIN_FILENO, text, sizeof text);
    if (got <= 0) return "q";  // the terminal is closed
    return std::string(text, static_cast<size_t>(got));
  }

 private:
  termios before_ = {};
  bool keys_ = false;
};

// Lines from `first` on, and a last one with the keys.
std::string drawn(const std::vector<std::string>& lines, size_t first, const Window& window) {
  const auto room = static_cast<size_t>(window.height - 1);
  std::string out = "\x1b[H";
  for (size_t i = first; i < std::min(lines.size(), first + room); ++i) {
    out += lines[i] + "\x1b[K\r\n";
  }
  std::string hint = "  q quits (the run continues)";
  if (lines.size() > room) {
    hint += format("; arrow keys scroll: {} to {} of {} lines", first + 1,
                   std::min(lines.size(), first + room), lines.size());
  }
  hint.resize(std::min(hint.size(), static_cast<size_t>(window.width)));
  return out + hint + "\x1b[J";
}

// Moves `first` by the keys; false when they ask to quit.
bool apply(const std::string& keys, int page, int& first) {
  if (keys.find_first_of("qQ") != std::string::npos) return false;
  if (keys == "\x1b[B" || keys == "j") ++first;
  if (keys == "\x1b[A" || keys == "k") --first;
  if (keys == "\x1b[6~" || keys == " ") first += page;
  if (keys == "\x1b[5~") first -= page;
  return true;
}

void follow(RunReader& reader, const TopOptions& options) {
  using Clock = std::chrono::steady_clock;
  const Screen screen;
  const auto pause =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.every));
  Window shown;
  int first = 0;
  Clock::time_point next = Clock::now();
  std::string before;
  while (!interrupt_requested()) {
    const Window window = window_now();
    const bool due = Clock::now() >= next;
    if (due) reader.refresh();
    if (due) next = Clock::now() + pause;
    const std::vector<std::string> lines =
        top_picture(options.run, reader.run(), unix_now(), static_cast<size_t>(window.width));
    const int last = std::max(0, static_cast<int>(lines.size()) - (window.height - 1));
    first = std::clamp(first, 0, last);
    std::string text = drawn(lines, static_cast<size_t>(first), window);
    if (window != shown) print_unescaped("\x1b[2J");
    if (due || window != shown || text != before) print_unescaped(text);
    shown = window;
    before = std::move(text);
    int moved = first;
    do {  // in short waits, so that keys and a new size take effect at once
      if (!apply(screen.typed(), window.height - 2, moved)) return;
    } while (moved == first && window_now() == shown && Clock::now() < next &&
             !interrupt_requested());
    first = moved;
  }
}

}  // namespace

void run_top(const TopOptions& options) {
  RunReader reader(options.run);
  reader.refresh();  // a wrong directory is an error before the screen changes
  if (!options.once && isatty(STDOUT_FILENO) == 1) return follow(reader, options);
  for (const std::string& line : top_picture(options.run, reader.run(), unix_now(),
                                             static_cast<size_t>(window_now().width))) {
    print(line + "\n");
  }
}

}  // namespace reigen
