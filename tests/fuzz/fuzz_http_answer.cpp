// Answers of a metadata server (--preemption): a body is never longer than the text, and an answer
// that gives its length needs no byte beyond it.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "train/workers/metadata_server.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reigen;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto answer = parse_http_answer(text);
  if (!answer) return 0;
  const size_t head = text.find("\r\n\r\n") + 4;
  require(head <= size && answer->body.size() <= size - head);
  require(-99 <= answer->status && answer->status <= 999);
  const std::string plain =
      "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(answer->body.size()) + "\r\n\r\n" +
      answer->body;
  for (const char* more : {"", "x"}) {
    const auto again = parse_http_answer(plain + more);
    require(again && again->status == 200 && again->body == answer->body);
  }
  if (!answer->body.empty()) require(!parse_http_answer(plain.substr(0, plain.size() - 1)));
  return 0;
}
