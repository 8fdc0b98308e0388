// A connection between two workers: TCP, in clear or encrypted by TLS 1.3.
//
// The job's token is the pre-shared key of TLS, so each end knows that the other has it; there are
// no certificates. Non-blocking: the TLS handshake happens inside the first reads and writes. The
// only door to OpenSSL's libssl, which writes to connections that may be closed: the process must
// ignore SIGPIPE (base/interrupt.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "config/encrypt.h"
#include "dist/net/socket.h"

namespace reigen {

// Which connections of a job are encrypted, and with which key. Copies share the key.
class Encryption {
 public:
  Encryption() = default;  // none are
  // A connection changes its key after `rekey_after` bytes, long before AES-GCM's limit of about
  // 390 GB (RFC 8446, section 5.5).
  Encryption(Encrypt mode, std::string_view token, uint64_t rekey_after = uint64_t{64} << 30);

  // kAuto: between machines. Both ends of a connection come to the same answer.
  bool covers(const Socket& socket) const;

 private:
  friend class Channel;
  struct Tls;
  Encrypt mode_ = Encrypt::kOff;
  uint64_t rekey_after_ = 0;
  std::shared_ptr<Tls> tls_;
};

// Whether both ends of a connection are on this machine.
bool stays_on_machine(const Socket& socket);

class Channel {
 public:
  enum class Side : uint8_t { kConnecting, kAccepting };

  Channel();
  explicit Channel(Socket socket);  // in clear
  Channel(Socket socket, const Encryption& encryption, Side side);
  ~Channel();
  Channel(Channel&&) noexcept;
  Channel& operator=(Channel&&) noexcept;

  struct Moved {
    size_t bytes = 0;
    bool open = true;  // false: the connection is closed or broken, see error()
  };
  // The bytes that are available now, at most into.size(). 0 bytes on an open connection: none are.
  Moved read(std::span<std::byte> into);
  // As many as the connection takes now, of both parts in order.
  Moved write(std::span<const std::byte> first, std::span<const std::byte> second = {});

  // The events to wait for with poll(). A handshake may have to read before it can write.
  short events(bool to_write) const;
  // Whether bytes may have been decrypted but not read yet: poll() does not announce them.
  bool pending() const { return may_have_more_ && error_.empty(); }

  // The two ends of a connection in clear on one machine, for proofs: one that was made for a
  // different connection, and passed on by a third process, does not fit. Empty for all others: TLS
  // needs no help, and addresses between machines may be translated on the way.
  std::string binding() const;

  bool open() const { return socket_.open(); }
  bool encrypted() const { return tls_ != nullptr; }
  const Socket& socket() const { return socket_; }
  int fd() const { return socket_.fd(); }
  const std::string& error() const { return error_; }
  bool timed_out() const { return timed_out_; }        // the other end answers nothing any more
  bool key_rejected() const { return key_rejected_; }  // the two ends have different tokens

 private:
  struct Tls;
  Moved read_tls(std::span<std::byte> into);
  Moved write_tls(std::span<const std::byte> first, std::span<const std::byte> second);
  Moved ended(std::string why);
  Moved broken(int error_number);
  bool failed(int result, bool writing);

  Socket socket_;
  Side side_ = Side::kConnecting;
  std::unique_ptr<Tls> tls_;
  std::string error_;
  uint64_t rekey_after_ = 0;
  uint64_t written_ = 0;        // with the present key
  bool write_pending_ = false;  // OpenSSL holds a record that was not sent whole
  bool write_waits_for_read_ = false;
  bool read_waits_for_write_ = false;
  bool may_have_more_ = false;
  bool timed_out_ = false;
  bool key_rejected_ = false;
};

// Appends the bytes available now, at most `most` in all. False once the connection is closed.
bool read_available(Channel& channel, std::string& into, size_t most);
// Writes as much of `from` as possible now and removes it. False once the connection is broken.
bool write_available(Channel& channel, std::string& from);

}  // namespace reigen
