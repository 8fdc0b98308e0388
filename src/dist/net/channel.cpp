#include "dist/net/channel.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"

namespace reigen {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr std::string_view kIdentity = "reigen";  // of the one key there is
constexpr size_t kRecord = 16384;                 // largest payload of a TLS record
constexpr size_t kReadAhead = size_t{128} << 10;  // so that one system call reads many records

using Key = std::array<unsigned char, kKeyBytes>;

std::string openssl_error() {
  const unsigned long code = ERR_get_error();
  const char* reason = ERR_reason_error_string(code);
  return reason == nullptr ? "TLS failed" : format("TLS: {}", reason);
}

// The key as a session of TLS 1.3, which both ends then resume.
SSL_SESSION* session_of(SSL* ssl, const Key& key) {
  const unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  SSL_SESSION* session = SSL_SESSION_new();
  if (session != nullptr && SSL_SESSION_set1_master_key(session, key.data(), key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kAes128GcmSha256)) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

const Key& key_of(const SSL* ssl) {
  return *static_cast<const Key*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

int offer_key(SSL* ssl, const EVP_MD* hash, const unsigned char** id, size_t* size,
              SSL_SESSION** session) {
  *session = session_of(ssl, key_of(ssl));
  if (*session == nullptr) return 0;
  if (hash != nullptr && hash != SSL_CIPHER_get_handshake_digest(SSL_SESSION_get0_cipher(*session)))
    return 0;
  *id = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *size = kIdentity.size();
  return 1;
}

int find_key(SSL* ssl, const unsigned char* id, size_t size, SSL_SESSION** session) {
  const std::string_view name(reinterpret_cast<const char*>(id), size);
  *session = name == kIdentity ? session_of(ssl, key_of(ssl)) : nullptr;
  return 1;  // without a session there is no handshake: this end has no certificate
}

}  // namespace

struct Encryption::Tls {
  Key key;
  SSL_CTX* context = nullptr;

  explicit Tls(std::string_view token) {
    const std::string hex = hmac_sha256(token, "reigen TLS 1.3 pre-shared key");
    const std::string bytes = hex_decode(hex).value();
    std::copy_n(bytes.begin(), key.size(), key.begin());
    context = SSL_CTX_new(TLS_method());
    if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1) {
      throw CommError(format("cannot set up encryption: {}", openssl_error()));
    }
    SSL_CTX_set_app_data(context, &key);
    SSL_CTX_set_psk_use_session_callback(context, offer_key);
    SSL_CTX_set_psk_find_session_callback(context, find_key);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, kReadAhead);
  }
  ~Tls() {
    SSL_CTX_free(context);
    OPENSSL_cleanse(key.data(), key.size());
  }
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
};

Encryption::Encryption(Encrypt mode, std::string_view token, uint64_t rekey_after)
    : mode_(mode), rekey_after_(rekey_after) {
  if (mode != Encrypt::kOff) tls_ = std::make_shared<Tls>(token);
}

bool Encryption::covers(const Socket& socket) const {
  if (mode_ == Encrypt::kAuto) return !stays_on_machine(socket);
  return mode_ == Encrypt::kOn;
}

bool stays_on_machine(const Socket& socket) {
  const std::string here = local_address(socket);
  const std::string there = peer_address(socket);
  return here == there || (is_loopback(here) && is_loopback(there));
}

struct Channel::Tls {
  std::shared_ptr<Encryption::Tls> shared;  // the key outlives the connection
  SSL* ssl = nullptr;

  explicit Tls(std::shared_ptr<Encryption::Tls> from)
      : shared(std::move(from)), ssl(SSL_new(shared->context)) {
    if (ssl == nullptr) throw CommError(format("cannot encrypt: {}", openssl_error()));
  }
  ~Tls() { SSL_free(ssl); }
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
};

Channel::Channel() = default;
Channel::Channel(Socket socket) : socket_(std::move(socket)) {}

Channel::Channel(Socket socket, const Encryption& encryption, Side side)
    : socket_(std::move(socket)), side_(side), rekey_after_(encryption.rekey_after_) {
  if (!encryption.covers(socket_)) return;
  tls_ = std::make_unique<Tls>(encryption.tls_);
  SSL_set_fd(tls_->ssl, socket_.fd());
  if (side == Side::kAccepting) {
    SSL_set_accept_state(tls_->ssl);
  } else {
    SSL_set_connect_state(tls_->ssl);
    // A certificate is never accepted instead of the key: no authority is trusted.
    SSL_set_verify(tls_->ssl, SSL_VERIFY_PEER, nullptr);
  }
}

Channel::~Channel() = default;
Channel::Channel(Channel&&) noexcept = default;
Channel& Channel::operator=(Channel&&) noexcept = default;

Channel::Moved Channel::ended(std::string why) {
  if (error_.empty()) error_ = std::move(why);
  return {0, false};
}

Channel::Moved Channel::broken(int error_number) {
  timed_out_ = error_number == ETIMEDOUT || error_number == EHOSTUNREACH;
  return ended(error_number == 0 ? "its connection closed" : errno_text(error_number));
}

Channel::Moved Channel::read(std::span<std::byte> into) {
  if (!error_.empty()) return {0, false};
  if (tls_) return read_tls(into);
  while (true) {
    const ssize_t got = recv(socket_.fd(), into.data(), into.size(), 0);
    if (got > 0) return {static_cast<size_t>(got), true};
    if (got == 0) return broken(0);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
    if (errno != EINTR) return broken(errno);
  }
}

Channel::Moved Channel::write(std::span<const std::byte> first, std::span<const std::byte> second) {
  if (!error_.empty()) return {0, false};
  if (tls_) return write_tls(first, second);
  // sendmsg() takes pointers to mutable memory, but only reads.
  iovec parts[] = {{const_cast<std::byte*>(first.data()), first.size()},
                   {const_cast<std::byte*>(second.data()), second.size()}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  while (true) {
    const ssize_t put = sendmsg(socket_.fd(), &message, MSG_NOSIGNAL);
    if (put >= 0) return {static_cast<size_t>(put), true};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
    if (errno != EINTR) return broken(errno);
  }
}

// False if the call only has to be repeated later.
bool Channel::failed(int result, bool writing) {
  switch (SSL_get_error(tls_->ssl, result)) {
    case SSL_ERROR_WANT_READ:
      if (writing) write_waits_for_read_ = true;
      return false;
    case SSL_ERROR_WANT_WRITE:
      if (!writing) read_waits_for_write_ = true;
      return false;
    case SSL_ERROR_ZERO_RETURN:
      broken(0);
      return true;
    case SSL_ERROR_SYSCALL:
      broken(errno);
      return true;
    default:
      break;
  }
  const bool closed = ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  key_rejected_ = !closed && SSL_is_init_finished(tls_->ssl) == 0;
  ended(closed ? "its connection closed" : openssl_error());
  return true;
}

Channel::Moved Channel::read_tls(std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size()) {
    size_t got = 0;
    ERR_clear_error();
    errno = 0;
    read_waits_for_write_ = false;
    const int result = SSL_read_ex(tls_->ssl, into.data() + done, into.size() - done, &got);
    if (result != 1) {
      may_have_more_ = false;
      return {done, !failed(result, false)};
    }
    write_waits_for_read_ = false;
    done += got;
  }
  may_have_more_ = true;
  return {done, true};
}

Channel::Moved Channel::write_tls(std::span<const std::byte> first,
                                  std::span<const std::byte> second) {
  // Both parts share the first record.
  std::byte record[kRecord];
  std::span<const std::byte> joined = first;
  if (!first.empty() && first.size() < kRecord && !second.empty()) {
    const size_t taken = std::min(kRecord - first.size(), second.size());
    std::memcpy(record, first.data(), first.size());
    std::memcpy(record + first.size(), second.data(), taken);
    joined = {record, first.size() + taken};
    second = second.subspan(taken);
  }
  if (written_ > rekey_after_ && !write_pending_ &&
      SSL_key_update(tls_->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1) {
    written_ = 0;
  }
  size_t done = 0;
  for (std::span<const std::byte> part : {joined, second}) {
    while (!part.empty()) {
      size_t put = 0;
      ERR_clear_error();
      errno = 0;
      write_waits_for_read_ = false;
      const int result = SSL_write_ex(tls_->ssl, part.data(), part.size(), &put);
      write_pending_ = result != 1;
      if (result != 1) return {done, !failed(result, true)};
      done += put;
      written_ += put;
      part = part.subspan(put);
    }
  }
  return {done, true};
}

std::string Channel::binding() const {
  if (tls_ || !stays_on_machine(socket_)) return "";
  const std::string here = text_of(local_endpoint(socket_));
  const std::string there = text_of(peer_endpoint(socket_));
  return side_ == Side::kConnecting ? here + " > " + there : there + " > " + here;
}

short Channel::events(bool to_write) const {
  const bool writing = (to_write && !write_waits_for_read_) || read_waits_for_write_;
  return static_cast<short>(POLLIN | (writing ? POLLOUT : 0));
}

bool read_available(Channel& channel, std::string& into, size_t most) {
  std::array<std::byte, kRecord> buffer;
  while (into.size() < most) {
    const size_t room = std::min(buffer.size(), most - into.size());
    const Channel::Moved moved = channel.read(std::span(buffer).first(room));
    into.append(reinterpret_cast<const char*>(buffer.data()), moved.bytes);
    if (!moved.open) return false;
    if (moved.bytes == 0) return true;
  }
  return true;
}

bool write_available(Channel& channel, std::string& from) {
  size_t done = 0;
  bool open = true;
  while (open && done < from.size()) {
    const Channel::Moved moved =
        channel.write(std::as_bytes(std::span(from.data() + done, from.size() - done)));
    done += moved.bytes;
    open = moved.open;
    if (moved.bytes == 0) break;
  }
  from.erase(0, done);
  return open;
}

}  // namespace reigen
