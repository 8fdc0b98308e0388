#include "dist/members/standby.h"

#include <utility>

#include "dist/members/standby_loop.h"

namespace reigen {

Standby::Standby(StandbyOptions options, Socket listener, const std::vector<Member>& members,
                 int rank)
    : loop_(std::make_unique<Loop>(std::move(options), std::move(listener), members, rank)) {}
Standby::Standby(StandbyOptions options, Socket listener, const Member& self, const Elsewhere& job)
    : loop_(std::make_unique<Loop>(std::move(options), std::move(listener), self, job)) {}
Standby::~Standby() = default;

void Standby::notice(const std::string& forming, const Departure& departure, bool certain) {
  loop_->notice(forming, departure, certain);
}

void Standby::on_forming(const std::string& forming, std::function<void(const CommStatus&)> call) {
  loop_->on_forming(forming, std::move(call));
}

void Standby::note_training() { loop_->note_training(); }

bool Standby::stands(const std::string& forming) const { return loop_->stands(forming); }

std::unique_ptr<FormedMembership> Standby::take(std::chrono::milliseconds within) {
  return loop_->take(within);
}

Standby::Waiting Standby::waiting() const { return loop_->waiting(); }
void Standby::set_welcome(std::string text) { loop_->set_welcome(std::move(text)); }
size_t Standby::waiting_joiners() const { return loop_->waiting_joiners(); }
void Standby::received_state() { loop_->received_state(); }
void Standby::trust_that_others_ended() { loop_->trust_that_others_ended(); }
void Standby::set_writing(const WritingClaim& claim) { loop_->set_writing(claim); }
void Standby::leave() { loop_->leave(); }
bool Standby::withdraw(const std::string& forming) { return loop_->withdraw(forming); }

}  // namespace reigen
