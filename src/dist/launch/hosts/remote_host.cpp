#include "dist/launch/hosts/remote_host.h"

#include <csignal>

#include "base/format.h"
#include "dist/launch/hosts/agent_protocol.h"
#include "dist/net/message.h"

namespace reigen {

void RemoteHost::connect(const SshOptions& ssh, const std::string& binary) {
  ChildSpec spec;
  spec.command = ssh_command(ssh, slots_.host, format("exec {} {}", binary, kAgentCommand));
  spec.with_input = true;
  greeted_ = false;
  incoming_.clear();
  outgoing_.clear();
  err_ = {};
  last_line_.clear();
  process_ = std::make_unique<ChildProcess>(spec);
}

void RemoteHost::disconnect() {
  if (process_) process_->signal(SIGKILL);
}

void RemoteHost::send(const Json& message) {
  outgoing_ += encode_message(message);
  if (process_->in().open() && !write_available(process_->in(), outgoing_)) process_->in().close();
}

std::vector<Json> RemoteHost::receive(const std::function<void(const std::string&)>& own) {
  std::string bytes;
  constexpr size_t kMost = size_t{4} << 20;
  if (process_->err().open() && !read_available(process_->err(), bytes, kMost)) {
    process_->close_err();
  }
  for (const auto& line : err_.add(bytes)) {
    last_line_ = line;
    own(line);
  }
  if (process_->out().open() && !read_available(process_->out(), incoming_, kMost)) {
    process_->close_out();
  }
  if (!greeted_) {
    const size_t greeting = incoming_.find(kAgentGreeting);
    if (greeting == std::string::npos) return {};
    incoming_.erase(0, greeting + std::string_view(kAgentGreeting).size());
    greeted_ = true;
  }
  std::vector<Json> messages;
  Json message;
  Decoded decoded = Decoded::kIncomplete;
  while ((decoded = decode_message(incoming_, kMostFromMember, message)) == Decoded::kMessage) {
    messages.push_back(message);
  }
  if (decoded == Decoded::kBroken) process_->signal(SIGKILL);
  return messages;
}

}  // namespace reigen
