#include "train/step/gpu_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reigen {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Two workers, each with a GPU on a host of its own.
NcclQuestion two_hosts() {
  NcclQuestion question;
  question.compress.method = CompressMethod::kNone;
  question.machines = 2;
  question.workers = {{"GPU-a", ""}, {"GPU-b", ""}};
  return question;
}

TEST(GpuTransport, GradientsGoOverNcclWhereEveryWorkerHasAGpuOfItsOwn) {
  EXPECT_THAT(why_not_nccl(two_hosts()), IsEmpty());
}

TEST(GpuTransport, EncryptionOnAllowsNcclWithinOneHostOnly) {
  NcclQuestion question = two_hosts();
  question.encrypt = Encrypt::kOn;
  EXPECT_THAT(why_not_nccl(question), HasSubstr("--encrypt on"));
  question.machines = 1;
  EXPECT_THAT(why_not_nccl(question), IsEmpty());
  for (const Encrypt encrypt : {Encrypt::kAuto, Encrypt::kOff}) {
    question = two_hosts();
    question.encrypt = encrypt;
    EXPECT_THAT(why_not_nccl(question), IsEmpty());
  }
}

TEST(GpuTransport, TcpThatIsAskedForIsNotNccl) {
  NcclQuestion question = two_hosts();
  question.wanted = Transport::kTcp;
  EXPECT_THAT(why_not_nccl(question), HasSubstr("--transport tcp"));
}

TEST(GpuTransport, MethodsComputedOnTheHostGoThroughItsMemory) {
  NcclQuestion question = two_hosts();
  question.compress.method = CompressMethod::kTopK;
  EXPECT_THAT(why_not_nccl(question), Not(IsEmpty()));
}

TEST(GpuTransport, TheFirstWorkerThatCannotUseNcclIsNamed) {
  NcclQuestion question = two_hosts();
  question.workers[1] = {"", ""};
  EXPECT_THAT(why_not_nccl(question), HasSubstr("rank 1"));
  question.workers[1] = {"GPU-a", ""};
  EXPECT_THAT(why_not_nccl(question), HasSubstr("rank 1"));
  question.workers[0] = {"GPU-a", "no libnccl.so.2"};
  EXPECT_THAT(why_not_nccl(question), HasSubstr("rank 0: no libnccl.so.2"));
}

}  // namespace
}  // namespace reigen
