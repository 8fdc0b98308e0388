#include "data/input/line_reader.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

constexpr size_t kBufferBytes = 1 << 16;

// A text editor may save "Unicode" as two or four bytes per character. No UTF-8 text begins like
// this.
void refuse_wide_text(const std::string& path, std::string_view start) {
  const char* kind = nullptr;
  if (start.starts_with("\xFF\xFE") || start.starts_with("\xFE\xFF")) kind = "UTF-16";
  if (start.starts_with(std::string_view("\xFF\xFE\0\0", 4)) ||
      start.starts_with(std::string_view("\0\0\xFE\xFF", 4))) {
    kind = "UTF-32";
  }
  if (kind == nullptr) return;
  throw DataError(
      format("{}: is {} text, not UTF-8; convert it with iconv -f {} -t UTF-8", path, kind, kind));
}

}  // namespace

LineReader::LineReader(const std::string& path) : LineReader(ByteSource(path)) {}

LineReader::LineReader(ByteSource source, size_t most_bytes)
    : source_(std::move(source)),
      most_bytes_(most_bytes),
      buffer_(std::make_unique_for_overwrite<char[]>(kBufferBytes)) {}

bool LineReader::at_end() {
  if (begin_ == end_) {
    begin_ = 0;
    end_ = source_.read(buffer_.get(), kBufferBytes);
  }
  return end_ == 0;
}

bool LineReader::next(std::string& line) {
  // A byte order mark (3 bytes) and a "\r" may be removed below; a line that is too long must stay
  // so.
  const size_t most_stored = most_bytes_ + 1 + 4;
  line.clear();
  bool any = false;
  while (true) {
    if (at_end()) break;
    any = true;
    const char* from = buffer_.get() + begin_;
    const char* newline = static_cast<const char*>(std::memchr(from, '\n', end_ - begin_));
    size_t n = newline == nullptr ? end_ - begin_ : static_cast<size_t>(newline - from);
    line.append(from, std::min(n, most_stored - line.size()));
    begin_ += n + (newline == nullptr ? 0 : 1);
    if (newline != nullptr) break;
  }
  if (!any) return false;
  if (lines_ == 0) {
    refuse_wide_text(source_.path(), line);
    if (line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  }
  if (line.ends_with('\r')) line.pop_back();
  if (line.size() > most_bytes_) line.resize(most_bytes_ + 1);
  ++lines_;
  return true;
}

}  // namespace reigen
