#include "dist/members/join_question.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "dist/members/handshake.h"
#include "dist/members/member_json.h"
#include "dist/net/message.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kQuestionWithin{5'000};
constexpr milliseconds kBetweenQuestions{300};

struct JobAnswer {
  std::string first_forming;
  Welcome welcome;
};

// Throws Refused.
JobAnswer ask_one(const Endpoint& at, const JoinQuestion& question) {
  std::string why;
  Socket socket = connect_to(at, kQuestionWithin, why);
  if (!socket.open()) throw Refused{why};
  Handshake handshake(Channel(std::move(socket), question.encryption, Channel::Side::kConnecting));
  const auto deadline = HandshakeClock::now() + kQuestionWithin;
  JobAnswer answer{.first_forming = prove_to_running_job(handshake, question.token, deadline)};
  handshake.send({{"kind", "worker"}, {"worker", json_of(new_worker(0))}});
  handshake.send({{"kind", "question"}});
  while (const auto message = handshake.receive(deadline)) {
    if (text_field(*message, "kind") != "welcome") continue;
    const auto welcome = welcome_in(*message);
    if (!welcome) break;
    answer.welcome = *welcome;
    return answer;
  }
  throw Refused{"the worker there did not answer"};
}

}  // namespace

JoinAnswer ask_running_job(const JoinQuestion& question) {
  const auto deadline = HandshakeClock::now() + question.within;
  size_t asked = 0;
  Endpoint at = question.at.at(asked);
  std::string why;
  do {
    check_interrupt();
    try {
      const JobAnswer answer = ask_one(at, question);
      if (answer.welcome.number >= 0) {
        return {{answer.welcome.at, answer.first_forming, answer.welcome.number},
                answer.welcome.text};
      }
      const Member& first = answer.welcome.at.members.front();
      at = {first.address, first.standby};
      why = "its rank 0 changes";
      continue;
    } catch (const Refused& refused) {
      why = format("{} ({})", text_of(at), refused.text);
      at = question.at[++asked % question.at.size()];
    }
    std::this_thread::sleep_for(kBetweenQuestions);
  } while (HandshakeClock::now() < deadline);
  throw CommError(format("no elastic job to join was found within {:.3g} s (--start-within): {}",
                         seconds_of(question.within), why));
}

}  // namespace reigen
