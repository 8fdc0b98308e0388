// Messages of a membership that forms: any JSON is refused or gives a message that is the same when
// it is written and read again, and that a worker in any state of forming survives, whatever the
// sender claims to know.
#include <cstdlib>
#include <string_view>

#include "dist/members/forming/assembly.h"
#include "dist/members/member_json.h"

namespace {

using namespace reigen;

template <class T, class Read>
void write_and_read_again(const std::optional<T>& value, Read read) {
  if (!value) return;
  const Json json = json_of(*value);
  const auto again = read(json);
  if (!again || json_of(*again) != json) std::abort();
}

// A worker of three that lost one, and hears from the other.
void form(const FormingMessage& message, int self, size_t rounds) {
  const WorkerId workers[] = {{0, 0}, {1, 1}, {2, 2}};
  Asking asking{.worker = workers[self]};
  asking.record.formed = {.id = "first", .members = {workers[0], workers[1], workers[2]}};
  Assembly::Time now;
  Assembly assembly(asking, {}, {.lost = {workers[2]}}, {}, now);
  for (size_t round = 0; round < rounds; ++round) {
    assembly.receive(workers[1 - self], message, now);
    for (const Assembly::Outgoing& out : assembly.take_outgoing()) one_line(json_of(out.message));
    now += std::chrono::milliseconds(700);
    assembly.tick(now);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return 0;
  write_and_read_again(member_in(json), member_in);
  write_and_read_again(proof_in(json), proof_in);
  write_and_read_again(application_in(json), application_in);
  write_and_read_again(elsewhere_in(json), elsewhere_in);
  write_and_read_again(welcome_in(json), welcome_in);
  json_of(reasons_in(json));
  const auto message = forming_message_in(json);
  write_and_read_again(message, forming_message_in);
  constexpr size_t kRounds = 8;
  for (int self = 0; message && self < 2; ++self) form(*message, self, kRounds);
  return 0;
}
